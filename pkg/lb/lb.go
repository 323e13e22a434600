// Package lb is the vocabulary of the load balancer: the resources an operator
// configures and the states they can be in. Names and enum values are those of
// the Compute API (semantics.md 0). It holds no behaviour beyond small pure
// helpers and imports nothing but the standard library.
package lb

import (
	"net/netip"
	"time"
)

// Config is one whole, validated configuration. References between resources
// are names; every name is known to resolve. It is never changed after it was
// loaded: a reload makes a new one.
type Config struct {
	Gateway      Gateway
	Clients      ClientMap
	HealthChecks []HealthCheck
	Groups       []Group
	Services     []Service
	Rules        []ForwardingRule
	Routes       []Route
}

// Gateway is the `l4lb.gateway` block: what concerns this host alone.
type Gateway struct {
	Name          string
	Region        string
	Interfaces    []string
	XDPMode       XDPMode
	FlowTable     FlowTable
	AdminListen   string // "unix:/path" or "host:port"
	MetricsListen string // "host:port"; "" serves no metrics
	// HashSeed is mixed into every choice of a backend. All gateways that
	// serve the same VIPs must share it; keeping it secret keeps clients
	// from aiming at one backend.
	HashSeed uint64
	// TunnelSources are the outer source addresses of IPIP tunnels, one prefix
	// of a family at most, whose host bits tell flows apart. A family without
	// one has the gateway's own address.
	TunnelSources []netip.Prefix
}

// FlowTable sizes the connection tracking table.
type FlowTable struct {
	Entries uint32 // flows each address family can hold
}

// XDPMode says how the program is attached.
type XDPMode string

const (
	XDPNative  XDPMode = "native"
	XDPGeneric XDPMode = "generic"
)

// ClientMap tells from a client's address where it is.
type ClientMap struct {
	Zones        []Zone
	Incompatible []netip.Prefix // VPN, interconnect: never zonal (semantics.md 3.6)
	OtherRegion  []netip.Prefix // need allowGlobalAccess, never zonal
}

// Zone names the client ranges that are in it.
type Zone struct {
	Name         string
	ClientRanges []netip.Prefix
}

// HealthCheckType is the protocol of a health check.
type HealthCheckType string

const (
	CheckTCP         HealthCheckType = "TCP"
	CheckSSL         HealthCheckType = "SSL"
	CheckHTTP        HealthCheckType = "HTTP"
	CheckHTTPS       HealthCheckType = "HTTPS"
	CheckHTTP2       HealthCheckType = "HTTP2"
	CheckGRPC        HealthCheckType = "GRPC"
	CheckGRPCWithTLS HealthCheckType = "GRPC_WITH_TLS"
)

// ProxyHeader is the line a probe sends first.
type ProxyHeader string

const (
	ProxyNone ProxyHeader = "NONE"
	ProxyV1   ProxyHeader = "PROXY_V1"
)

// HealthCheck holds the parameters of semantics.md 5.1, defaults filled in.
type HealthCheck struct {
	Name               string
	Type               HealthCheckType
	CheckInterval      time.Duration
	Timeout            time.Duration
	HealthyThreshold   int
	UnhealthyThreshold int
	Port               uint16
	ProxyHeader        ProxyHeader
	Host               string // HTTP family; "" is the destination address
	RequestPath        string // HTTP family
	Request            string // TCP, SSL
	Response           string
	GRPCServiceName    string
	LogEnabled         bool
	// ServerName is the name a probe over TLS asks for (SNI). "" is the name
	// in Host, and none where Host has none.
	ServerName string
	// VerifyCertificates makes a probe over TLS fail unless the certificate
	// is trusted by the host and names ServerName or, without one, the
	// destination address.
	VerifyCertificates bool
}

// ProbeTo says where the probes of a service's backends are addressed to.
type ProbeTo string

const (
	// ProbeVIP sends them to the addresses of the service's forwarding rules,
	// delivered to the backend as its traffic is (semantics.md 5.3).
	ProbeVIP ProbeTo = "vip"
	// ProbeDirect sends them to the backend's own address.
	ProbeDirect ProbeTo = "direct"
)

// Group is an instance group or a GCE_VM_IP network endpoint group.
type Group struct {
	Name      string
	Zone      string
	Endpoints []Endpoint
}

// Endpoint is one NIC of one instance.
type Endpoint struct {
	Instance string
	Addr     netip.Addr
	// TunnelAddr is where tunnels to it end; not valid: at Addr.
	TunnelAddr netip.Addr
}

// Protocol is a backend service's protocol.
type Protocol string

const (
	ServiceTCP         Protocol = "TCP"
	ServiceUDP         Protocol = "UDP"
	ServiceUnspecified Protocol = "UNSPECIFIED"
)

// SessionAffinity names the packet fields that are hashed (semantics.md 1.4).
type SessionAffinity string

const (
	AffinityNone                  SessionAffinity = "NONE"
	AffinityClientIPPortProto     SessionAffinity = "CLIENT_IP_PORT_PROTO"
	AffinityClientIPProto         SessionAffinity = "CLIENT_IP_PROTO"
	AffinityClientIP              SessionAffinity = "CLIENT_IP"
	AffinityClientIPNoDestination SessionAffinity = "CLIENT_IP_NO_DESTINATION"
)

// FiveTuple reports whether the affinity hashes ports too.
func (a SessionAffinity) FiveTuple() bool {
	return a == AffinityNone || a == AffinityClientIPPortProto
}

// LocalityLbPolicy names the algorithm that fills the selection tables.
type LocalityLbPolicy string

const (
	PolicyMaglev             LocalityLbPolicy = "MAGLEV"
	PolicyWeightedMaglev     LocalityLbPolicy = "WEIGHTED_MAGLEV"
	PolicyRendezvous         LocalityLbPolicy = "GCP_RENDEZVOUS"
	PolicyWeightedRendezvous LocalityLbPolicy = "WEIGHTED_GCP_RENDEZVOUS"
)

// Weighted reports whether backends' weights are used (semantics.md 1.9).
func (p LocalityLbPolicy) Weighted() bool {
	return p == PolicyWeightedMaglev || p == PolicyWeightedRendezvous
}

// TrackingMode decides the connection tracking key (semantics.md 1.6).
type TrackingMode string

const (
	PerConnection TrackingMode = "PER_CONNECTION"
	PerSession    TrackingMode = "PER_SESSION"
)

// Persistence says whether connections stay on a backend that turned unhealthy
// (semantics.md 1.8).
type Persistence string

const (
	PersistDefault Persistence = "DEFAULT_FOR_PROTOCOL"
	PersistNever   Persistence = "NEVER_PERSIST"
	PersistAlways  Persistence = "ALWAYS_PERSIST"
)

// Spillover is the zonal affinity option (semantics.md 3).
type Spillover string

const (
	ZonalDisabled       Spillover = "ZONAL_AFFINITY_DISABLED"
	ZonalStayWithinZone Spillover = "ZONAL_AFFINITY_STAY_WITHIN_ZONE"
	ZonalSpillCrossZone Spillover = "ZONAL_AFFINITY_SPILL_CROSS_ZONE"
)

// Ratio is a fraction in parts per million, so that comparisons are exact
// (semantics.md 2.4, ruling on F13).
type Ratio uint32

// RatioOne is the whole.
const RatioOne Ratio = 1_000_000

// AtMost reports whether r <= part/whole, in integers. whole must not be 0.
func (r Ratio) AtMost(part, whole int) bool {
	return uint64(part)*uint64(RatioOne) >= uint64(r)*uint64(whole)
}

// Tracking is connectionTrackingPolicy.
type Tracking struct {
	Mode        TrackingMode
	Persistence Persistence
	// IdleTimeout ends an entry this long after its last packet. It is
	// `l4lb.idleTimeoutSec` where that is set.
	IdleTimeout time.Duration
}

// FailoverPolicy is failoverPolicy; a service without one has a nil pointer.
type FailoverPolicy struct {
	Ratio                  Ratio
	DropTrafficIfUnhealthy bool
	// DisableConnectionDrain flushes the connections of the pool that is
	// being left (semantics.md 2.2).
	DisableConnectionDrain bool
	// DrainTimeout is how long connections of the pool being left stay
	// (`l4lb.failoverDrainTimeoutSec`, 300 s).
	DrainTimeout time.Duration
}

// ZonalAffinity is networkPassThroughLbTrafficPolicy.zonalAffinity.
type ZonalAffinity struct {
	Spillover      Spillover
	SpilloverRatio Ratio
}

// BackendRef attaches a group to a service.
type BackendRef struct {
	Group    string
	Failover bool
}

// Service is a backend service.
type Service struct {
	Name             string
	Protocol         Protocol
	HealthCheck      string // "" when the service has none: all backends count as healthy
	Affinity         SessionAffinity
	LocalityLbPolicy LocalityLbPolicy
	Tracking         Tracking
	DrainTimeout     time.Duration // connectionDraining.drainingTimeoutSec
	Failover         *FailoverPolicy
	Zonal            ZonalAffinity
	Backends         []BackendRef
	Forwarding       Forwarding
	Tunnel           TunnelOptions
	Probe            ProbeTo
	// PassiveSignals says when its backends are suspected; nil: never.
	PassiveSignals *PassiveSignals
}

// PassiveSignals says when a backend is suspected by what its traffic shows. A
// suspicion is reported and changes nothing else.
type PassiveSignals struct {
	// Window is how far back is looked.
	Window time.Duration
	// UnconfirmedShare of the new connections had no packet after the SYN.
	UnconfirmedShare Ratio
	// Minimum is how many connections, or ICMP errors, a window must have to
	// say anything.
	Minimum int
}

// RuleProtocol is a forwarding rule's IPProtocol.
type RuleProtocol string

const (
	RuleTCP       RuleProtocol = "TCP"
	RuleUDP       RuleProtocol = "UDP"
	RuleL3Default RuleProtocol = "L3_DEFAULT"
)

// ForwardingRule is a VIP frontend.
type ForwardingRule struct {
	Name string
	// Address is a single address, or an IPv6 /96 (semantics.md 6).
	Address           netip.Prefix
	Protocol          RuleProtocol
	Ports             []uint16 // sorted; empty with AllPorts
	AllPorts          bool
	Service           string
	AllowGlobalAccess bool
	Admission         Admission
}

// Backend is one endpoint as a member of one service.
type Backend struct {
	Instance string // the identity that is hashed
	Addr     netip.Addr
	Zone     string
	Group    string
	Failover bool
	// TunnelAddr is where tunnels to it end; not valid: at Addr.
	TunnelAddr netip.Addr
}

// HealthState is a backend's state as the API names it.
type HealthState string

const (
	Healthy   HealthState = "HEALTHY"
	Unhealthy HealthState = "UNHEALTHY"
	Draining  HealthState = "DRAINING"
	Unknown   HealthState = "UNKNOWN"
)

// Service returns the service of that name, or nil.
func (c *Config) Service(name string) *Service {
	return find(c.Services, name, func(s *Service) string { return s.Name })
}

// Group returns the group of that name, or nil.
func (c *Config) Group(name string) *Group {
	return find(c.Groups, name, func(g *Group) string { return g.Name })
}

// HealthCheck returns the health check of that name, or nil.
func (c *Config) HealthCheck(name string) *HealthCheck {
	return find(c.HealthChecks, name, func(h *HealthCheck) string { return h.Name })
}

// Rule returns the forwarding rule of that name, or nil.
func (c *Config) Rule(name string) *ForwardingRule {
	return find(c.Rules, name, func(r *ForwardingRule) string { return r.Name })
}

// Backends lists the members of a service in configuration order.
func (c *Config) Backends(s *Service) []Backend {
	var out []Backend
	for _, ref := range s.Backends {
		g := c.Group(ref.Group)
		if g == nil {
			continue
		}
		for _, e := range g.Endpoints {
			out = append(out, Backend{
				Instance: e.Instance, Addr: e.Addr,
				Zone: g.Zone, Group: g.Name, Failover: ref.Failover, TunnelAddr: e.TunnelAddr,
			})
		}
	}
	return out
}

// find is linear: it runs at reload, over at most some thousand names.
func find[T any](list []T, name string, key func(*T) string) *T {
	for i := range list {
		if key(&list[i]) == name {
			return &list[i]
		}
	}
	return nil
}

// DefaultLocalityLbPolicy is used where a service names none. It is the filling
// with the better balance and the fewer needless moves; the numbers are in
// docs/development/tables.md.
const DefaultLocalityLbPolicy = PolicyRendezvous

// PageMTU is the largest MTU at which every driver of native XDP has a packet in
// one page, beside the room that XDP needs. What is above may come in several
// buffers.
const PageMTU = 3000
