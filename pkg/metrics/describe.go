package metrics

import "github.com/prometheus/client_golang/prometheus"

// description is one metric. Its row in docs/setup/metrics.md has the same
// name, type and labels.
type description struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func counter(name, help string, labels ...string) description {
	return description{prometheus.NewDesc("l4lb_"+name, help, labels, nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) description {
	return description{prometheus.NewDesc("l4lb_"+name, help, labels, nil), prometheus.GaugeValue}
}

// histogram is described apart: its kind is not a ValueType.
func histogram(name, help string, labels ...string) description {
	return description{desc: prometheus.NewDesc("l4lb_"+name, help, labels, nil)}
}

// descriptions are all metrics.
type descriptions struct {
	buildInfo, ready, interfaceAttached          description
	configReloads, configRefused, configSince    description
	errors                                       description
	trafficPackets, trafficBytes, trafficFlows   description
	zonePackets, zoneBytes                       description
	packets, flowEvents, flowCapacity            description
	ruleRefused                                  description
	serviceBackends, serviceEligible, serviceSet description
	backendState, backendReachable               description
	backendWeight, suspected, suspicions         description
	probes, probeDuration, probeLateness         description
	probesInFlight, probesWaiting, neighbours    description
	transitions, damped, targetSince             description
}

func newDescriptions() *descriptions {
	return &descriptions{
		buildInfo:         gauge("build_info", "What runs, as labels; always 1.", "version", "goversion"),
		ready:             gauge("gateway_ready", "Whether packets are forwarded by the configuration."),
		interfaceAttached: gauge("gateway_interface_attached", "Whether the program is on an interface.", "interface", "mode"),
		configReloads:     counter("config_loads_total", "Readings of the configuration file.", "result"),
		configRefused:     gauge("config_last_load_refused", "Whether the newest reading was refused, and an older configuration is in force."),
		configSince:       gauge("config_in_force_timestamp_seconds", "When the configuration in force was read, in seconds since 1970."),
		errors:            counter("collection_errors_total", "Readings of counters that failed."),

		trafficPackets: counter("traffic_packets_total", "Packets sent to a backend for a forwarding rule.", trafficLabels()...),
		trafficBytes:   counter("traffic_bytes_total", "Bytes of whole frames sent to a backend for a forwarding rule.", trafficLabels()...),
		trafficFlows:   counter("traffic_flows_total", "Packets sent to a backend that followed no tracked flow.", trafficLabels()...),
		zonePackets:    counter("zone_packets_total", "Packets from clients of a zone to backends of a zone.", "client_zone", "backend_zone"),
		zoneBytes:      counter("zone_bytes_total", "Bytes of whole frames from clients of a zone to backends of a zone.", "client_zone", "backend_zone"),

		ruleRefused: counter("rule_refused_packets_total", "Packets of new flows that a forwarding rule with source ranges or limits did not take.", "rule", "reason"),

		packets:      counter("datapath_packets_total", "Packets that were not forwarded, by what became of them and why.", "verdict", "reason"),
		flowEvents:   counter("flow_events_total", "What happened to the flow tables.", "event"),
		flowCapacity: gauge("flow_table_capacity_entries", "Entries that the flow table of one address family has room for."),

		serviceBackends: gauge("service_backends", "Backends of a service by state.", "service", "family", "state"),
		serviceEligible: gauge("service_eligible_backends", "Size of a service's original eligible set.", "service", "family"),
		serviceSet:      gauge("service_eligible_set", "Which kind of eligible set a service has: 1 for that, 0 for the others.", "service", "family", "kind"),

		backendState:     gauge("backend_state", "State of a backend: 1 for that, 0 for the others.", backendLabels("state")...),
		backendReachable: gauge("backend_reachable", "Whether the link address of a backend's next hop is known.", backendLabels()...),
		backendWeight:    gauge("backend_weight", "Weight that a backend reported; absent where it reported none.", backendLabels()...),

		suspected:  gauge("backend_suspected", "Whether a backend is suspected by what its traffic shows.", backendLabels("signal")...),
		suspicions: counter("backend_suspicions_total", "Suspicions of a backend that began.", backendLabels("signal")...),

		probes:         counter("health_probes_total", "Health check probes by their outcome.", "protocol", "detail"),
		probeDuration:  histogram("health_probe_duration_seconds", "Time a probe took.", "protocol"),
		probeLateness:  histogram("health_probe_lateness_seconds", "Time from when a probe was due to when it started."),
		probesInFlight: gauge("health_probes_in_flight", "Probes that are running."),
		probesWaiting:  gauge("health_probes_waiting", "Probes that are due and wait because too many are running."),
		transitions:    counter("health_transitions_total", "Changes of state that health checks made, by the new state.", "protocol", "state"),
		damped:         counter("health_flaps_damped_total", "Runs of results against a state that ended before the threshold.", "protocol"),
		targetSince:    gauge("health_target_since_timestamp_seconds", "Since when a backend has its state at one address, in seconds since 1970.", "check", "protocol", "backend_address", "target", "state"),
		neighbours:     gauge("neighbour_backends", "Backend addresses by the state of the way to them.", "state"),
	}
}

func trafficLabels() []string { return []string{"rule", "service", "backend", "zone"} }

func backendLabels(more ...string) []string {
	return append([]string{"service", "backend", "address", "zone"}, more...)
}

// all lists the descriptions.
func (d *descriptions) all() []description {
	return []description{
		d.buildInfo, d.ready, d.interfaceAttached, d.configReloads, d.configRefused, d.configSince, d.errors,
		d.trafficPackets, d.trafficBytes, d.trafficFlows, d.zonePackets, d.zoneBytes,
		d.ruleRefused, d.packets, d.flowEvents, d.flowCapacity, d.serviceBackends, d.serviceEligible, d.serviceSet,
		d.backendState, d.backendReachable, d.backendWeight, d.suspected, d.suspicions,
		d.probes, d.probeDuration, d.probeLateness, d.probesInFlight, d.probesWaiting, d.neighbours,
		d.transitions, d.damped, d.targetSince,
	}
}
