package config

// unsupported lists what the schema knows and the product does not do yet.
// Such a value is refused, never ignored; a value that is the default passes.
// Whoever builds one of these deletes its line and its function.
func unsupported() []func(*check) {
	return []func(*check){
		sourceRegionsNotYet,
		subsettingNotYet,
		serviceLogsNotYet,
		haPolicyNotYet,
		mirroringNotYet,
	}
}

func sourceRegionsNotYet(c *check) {
	for i := range c.healthChecks {
		if regions := c.healthChecks[i].regions; regions.v {
			c.errorf(regions.pos, "sourceRegions is not supported yet: remove it, the gateway is the only prober")
		}
	}
}

func subsettingNotYet(c *check) {
	for i := range c.services {
		if p := c.services[i].subset.policy; p.or("NONE") != "NONE" {
			c.errorf(p.pos, "subsetting %q is not supported yet: use NONE", p.v)
		}
	}
}

func serviceLogsNotYet(c *check) {
	for i := range c.services {
		if enable := c.services[i].log.enable; enable.or(false) {
			c.errorf(enable.pos, "logConfig.enable true is not supported yet on a backend service: use false")
		}
	}
}

func haPolicyNotYet(c *check) {
	for i := range c.services {
		if ha := c.services[i].haPolicy; ha.v {
			c.errorf(ha.pos, "haPolicy is not supported yet: remove it")
		}
	}
}

func mirroringNotYet(c *check) {
	for i := range c.rules {
		if m := c.rules[i].mirroring; m.or(false) {
			c.errorf(m.pos, "isMirroringCollector true is not supported yet: use false")
		}
	}
}
