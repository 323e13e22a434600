// Package admin is the local API of a running gateway: its types, its server
// and its client. What `l4lbd status` and its relatives print comes through it.
// JSON keys are a contract: they are only ever added.
package admin

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"l4lb/pkg/conntrack"
	"l4lb/pkg/selector"
)

var (
	// ErrUnknown is returned for a name that is not configured.
	ErrUnknown = errors.New("not configured")
	// ErrNotReady is returned while the gateway cannot answer yet.
	ErrNotReady = errors.New("the gateway is just starting")
	// ErrBusy is returned for what another client does already.
	ErrBusy = errors.New("busy")
)

// Source is what the server shows and whom it tells.
type Source interface {
	Status() (Status, error)
	Services() ([]Service, error)
	// Backends lists the members of a service, or of all with "".
	Backends(service string) ([]Backend, error)
	Zones() ([]Zone, error)
	// Flows counts and lists the tracked flows that a filter wants.
	Flows(f conntrack.Filter) (conntrack.Report, error)
	Explain(ctx context.Context, service string, client netip.Addr) (selector.Explanation, error)
	// Drain and Undrain take a backend out by hand, and back in, of one
	// service or, with "", of all.
	Drain(ctx context.Context, instance, service string) error
	Undrain(ctx context.Context, instance, service string) error
	// Capture runs the program of a capture instead of the gateway's own until
	// ctx ends, and calls started when that is so. An error that it ends with is
	// why it ended before ctx.
	Capture(ctx context.Context, program uint32, started func()) error
}

// Status is a gateway at a glance.
type Status struct {
	Gateway         string           `json:"gateway"`
	Version         string           `json:"version"`
	Object          string           `json:"object"` // the compiled data plane
	PID             int              `json:"pid"`
	StartedAt       time.Time        `json:"startedAt"`
	Ready           bool             `json:"ready"`
	Config          ConfigStatus     `json:"config"`
	Interfaces      []Interface      `json:"interfaces"`
	Services        []Service        `json:"services"`
	ForwardingRules []ForwardingRule `json:"forwardingRules"`
	Routes          []Route          `json:"routes"`
	// Problems say what is not well, for people.
	Problems []string `json:"problems"`
}

// ConfigStatus says which configuration is in force.
type ConfigStatus struct {
	File         string    `json:"file"`
	InForceSince time.Time `json:"inForceSince"`
	// LastError is why the newest reload was refused; "" if it was not.
	LastError string `json:"lastError"`
}

// Interface is one interface of the gateway.
type Interface struct {
	Name     string `json:"name"`
	XDPMode  string `json:"xdpMode"`
	Attached bool   `json:"attached"`
}

// Service is a backend service with its backends of one address family.
type Service struct {
	Name   string `json:"name"`
	Family string `json:"family"` // "ipv4" or "ipv6"
	// Kind of the original eligible set, and the pool it comes from.
	Kind      string `json:"kind"`
	Pool      string `json:"pool"`
	Backends  int    `json:"backends"`
	Healthy   int    `json:"healthy"`
	Unhealthy int    `json:"unhealthy"`
	Unknown   int    `json:"unknown"`
	Draining  int    `json:"draining"`
	// Eligible is the size of the original eligible set.
	Eligible int `json:"eligible"`
}

// Traffic is what was forwarded. Bytes are of whole frames; Flows are packets
// that followed no tracked flow.
type Traffic struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	Flows   uint64 `json:"flows"`
}

// ForwardingRule is a VIP frontend.
type ForwardingRule struct {
	Name     string   `json:"name"`
	Address  string   `json:"address"`
	Protocol string   `json:"protocol"`
	Ports    []uint16 `json:"ports"`
	AllPorts bool     `json:"allPorts"`
	Service  string   `json:"service"`
	Traffic  Traffic  `json:"traffic"`
	// Admission is what the rule asks of new flows, nil where it takes all.
	Admission *Admission `json:"admission"`
}

// Admission is which new flows a rule takes. A limit of 0 is none.
type Admission struct {
	AllowedSourceRanges []string `json:"allowedSourceRanges"`
	Flows               FlowRate `json:"newFlows"`
	SourceFlows         FlowRate `json:"newFlowsOfSource"`
	SourcePrefixLength  int      `json:"sourcePrefixLength"`
	Refused             Refused  `json:"refused"`
}

// FlowRate limits new flows.
type FlowRate struct {
	PerSecond uint32 `json:"perSecond"`
	Burst     uint32 `json:"burst"`
}

// Refused counts packets by why they were refused.
type Refused struct {
	SourceNotAllowed  uint64 `json:"sourceNotAllowed"`
	RateLimited       uint64 `json:"rateLimited"`
	SourceRateLimited uint64 `json:"sourceRateLimited"`
}

// Route makes a forwarding rule the next hop of a destination. The rule's traffic
// is that of its routes too.
type Route struct {
	Name         string   `json:"name"`
	DestRange    string   `json:"destRange"`
	Priority     uint16   `json:"priority"`
	NextHop      string   `json:"nextHop"` // a forwarding rule
	Service      string   `json:"service"`
	SourceRanges []string `json:"sourceRanges"`
	Interfaces   []string `json:"interfaces"`
	// InForce is false where the destination is in a subnet of the gateway.
	InForce bool `json:"inForce"`
}

// Backend is one backend as a member of one service.
type Backend struct {
	Service  string `json:"service"`
	Instance string `json:"instance"`
	Address  string `json:"address"`
	Zone     string `json:"zone"`
	Group    string `json:"group"`
	Failover bool   `json:"failover"`
	// State is what selection goes by, DRAINING included; Health is what
	// checks say.
	State  string `json:"state"`
	Health string `json:"health"`
	// Since is when Health last changed; nil where nothing is checked.
	Since    *time.Time `json:"since"`
	Eligible bool       `json:"eligible"`
	// LastCheck is the newest probe; nil where there was none.
	LastCheck *Check `json:"lastCheck"`
	// Checks has each address the backend is probed at: those of the rules
	// of the service, or its own.
	Checks []RuleCheck `json:"checks"`
	// Weight is the decimal the backend reported, or "" and WeightError.
	Weight      string `json:"weight"`
	WeightError string `json:"weightError"`
	Link        Link   `json:"link"`
	// Suspicions are what its traffic shows against it, where the service has
	// passiveSignals. They change nothing.
	Suspicions []Suspicion `json:"suspicions"`
	// Tunnel is nil where packets go to the backend as they are.
	Tunnel *Tunnel `json:"tunnel"`
	// Leaving: no longer configured, here until its drain ends.
	Leaving  bool       `json:"leaving"`
	DrainEnd *time.Time `json:"drainEnd"` // nil when it does not drain
	Traffic  Traffic    `json:"traffic"`
}

// Suspicion is what the traffic of a backend shows against it.
type Suspicion struct {
	Signal string    `json:"signal"` // UNCONFIRMED_SYN or PORT_UNREACHABLE
	Why    string    `json:"why"`
	Since  time.Time `json:"since"`
}

// RuleCheck is the health of a backend at one address.
type RuleCheck struct {
	// ForwardingRules have the address; none where it is the backend's own.
	ForwardingRules []string   `json:"forwardingRules"`
	Target          string     `json:"target"` // address and port
	Protocol        string     `json:"protocol"`
	Source          string     `json:"source"` // local address of the newest probe
	State           string     `json:"state"`
	Since           *time.Time `json:"since"`
	Last            *Check     `json:"last"` // nil before the first probe
	// Passes and Misses is the length of the present run; one of them is 0.
	Passes int `json:"passes"`
	Misses int `json:"misses"`
	// Transitions counts changes of state, and Damped the runs against it
	// that ended before the threshold.
	Transitions uint64       `json:"transitions"`
	Damped      uint64       `json:"damped"`
	History     []Transition `json:"history"` // the newest 16, oldest first
}

// Transition is one change of state and the probe that decided it.
type Transition struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Check Check  `json:"check"`
}

// Check is one probe.
type Check struct {
	Detail     string    `json:"detail"`
	Text       string    `json:"text"`
	At         time.Time `json:"at"`
	LatencySec float64   `json:"latencySec"`
}

// Link is the way to a backend.
type Link struct {
	State     string `json:"state"` // of pkg/neigh
	Usable    bool   `json:"usable"`
	Interface string `json:"interface"`
	Via       string `json:"via"`
	MAC       string `json:"mac"`
}

// Tunnel is what packets to a backend are put into.
type Tunnel struct {
	Kind        string `json:"kind"`
	Source      string `json:"source"` // an address, or a prefix
	Destination string `json:"destination"`
	Overhead    int    `json:"overheadBytes"` // of headers
	MTU         int    `json:"mtu"`           // of the packets inside; 0 without a way
	Problem     string `json:"problem"`       // why there is none
}

// Zone is a zone as it sends and serves. Clients that are in none are the zone
// "none".
type Zone struct {
	Name         string   `json:"name"`
	ClientRanges []string `json:"clientRanges"`
	Backends     int      `json:"backends"`
	Healthy      int      `json:"healthy"`
	// To is the traffic of the zone's clients by zone of the backend.
	To []ZoneTraffic `json:"to"`
}

// ZoneTraffic is what went to the backends of a zone.
type ZoneTraffic struct {
	Zone    string `json:"zone"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// NoZone is the name of the zone of those that are in none.
const NoZone = "none"

// Lists are wrapped, so that keys can be added beside them.
type (
	// ServiceList is the answer of /v1/services.
	ServiceList struct {
		Services []Service `json:"services"`
	}
	// BackendList is the answer of /v1/backends.
	BackendList struct {
		Backends []Backend `json:"backends"`
	}
	// ZoneList is the answer of /v1/zones.
	ZoneList struct {
		Zones []Zone `json:"zones"`
	}
)
