package config

import (
	"net/netip"
	"time"

	"l4lb/pkg/lb"
)

// source is the file as it was written: every value with its place, nothing
// filled in. The rules judge it and build turns it into an lb.Config.
type source struct {
	gateway      gateway
	zones        []zone
	incompatible []val[netip.Prefix]
	otherRegion  []val[netip.Prefix]
	healthChecks []healthCheck
	groups       []group // of both kinds
	services     []service
	rules        []forwardingRule
	routes       []route
}

type gateway struct {
	pos           pos // of the mapping
	set           bool
	name          val[string]
	region        val[string]
	interfaces    []val[string]
	xdpMode       val[lb.XDPMode]
	flowTable     flowTable
	adminListen   val[string]
	metricsListen val[string]
	hashSeed      val[uint64]
	tunnelSources []val[netip.Prefix]
}

type flowTable struct {
	entries val[int]
}

type zone struct {
	pos    pos
	name   val[string]
	ranges []val[netip.Prefix]
}

type healthCheck struct {
	pos       pos
	name      val[string]
	kind      val[lb.HealthCheckType]
	interval  val[time.Duration]
	timeout   val[time.Duration]
	healthy   val[int]
	unhealthy val[int]
	blocks    map[lb.HealthCheckType]*checkBlock // those that were given
	log       logConfig
	regions   val[bool] // sourceRegions
	extension checkExtension
}

// checkExtension is the `l4lb:` block of a health check.
type checkExtension struct {
	verify     val[bool]
	serverName val[string]
}

// checkBlock is httpHealthCheck and its siblings.
type checkBlock struct {
	keyPos          pos
	port            val[uint16]
	portSpec        val[string]
	proxyHeader     val[lb.ProxyHeader]
	host            val[string]
	requestPath     val[string]
	request         val[string]
	response        val[string]
	grpcServiceName val[string]
}

type logConfig struct {
	enable val[bool]
	rate   val[lb.Ratio]
	mode   val[string]
}

type group struct {
	pos       pos
	name      val[string]
	zone      val[string]
	endpoints []endpoint
}

type endpoint struct {
	pos      pos
	instance val[string]
	addr     val[netip.Addr]
	tunnel   val[netip.Addr] // l4lb.tunnelAddress
}

type service struct {
	pos       pos
	name      val[string]
	scheme    val[string]
	protocol  val[lb.Protocol]
	checks    []val[string]
	affinity  val[lb.SessionAffinity]
	policy    val[lb.LocalityLbPolicy]
	tracking  tracking
	drain     draining
	failover  failoverPolicy
	zonal     zonalAffinity
	backends  []backend
	subset    subsetting
	log       logConfig
	haPolicy  val[bool]
	extension extension
}

type tracking struct {
	mode        val[lb.TrackingMode]
	persistence val[lb.Persistence]
	idle        val[time.Duration]
}

type draining struct {
	timeout val[time.Duration]
}

type failoverPolicy struct {
	set          bool
	ratio        val[lb.Ratio]
	drop         val[bool]
	disableDrain val[bool]
}

type zonalAffinity struct {
	spillover val[lb.Spillover]
	ratio     val[lb.Ratio]
}

// enabled reports whether the zonal step takes place.
func (z *zonalAffinity) enabled() bool {
	return z.spillover.or(lb.ZonalDisabled) != lb.ZonalDisabled
}

type backend struct {
	pos      pos
	group    val[string]
	failover val[bool]
}

type subsetting struct {
	policy val[string]
}

// extension is the `l4lb:` block of a service.
type extension struct {
	forwarding    val[lb.Forwarding]
	idle          val[time.Duration]
	failoverDrain val[time.Duration]
	probe         val[lb.ProbeTo]
	passive       passiveSignals
	guePort       val[uint16]
	genevePort    val[uint16]
	geneveVNI     val[int]
	mssClamp      val[bool]
}

type forwardingRule struct {
	pos       pos
	name      val[string]
	scheme    val[string]
	address   val[netip.Prefix]
	ipVersion val[string]
	protocol  val[lb.RuleProtocol]
	ports     []val[uint16]
	portsAt   pos
	allPorts  val[bool]
	service   val[string]
	global    val[bool]
	mirroring val[bool]
	extension ruleExtension
}

// ruleExtension is the `l4lb:` block of a forwarding rule.
type ruleExtension struct {
	ranges       []val[netip.Prefix]
	rangesAt     pos // of the key; zero without one
	rate, burst  val[int]
	sourceRate   val[int]
	sourceBurst  val[int]
	sourcePrefix val[int]
}

type route struct {
	pos      pos
	name     val[string]
	dest     val[netip.Prefix]
	priority val[int]
	nextHop  val[string]
	from     routeExtension
}

// routeExtension is the `l4lb:` block of a route.
type routeExtension struct {
	sources    []val[netip.Prefix]
	interfaces []val[string]
}
