package lab

import (
	"fmt"
	"strings"
)

// hints are the commands to try while the lab is up.
func (l *Lab) hints() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	inside := func(host string) string { return "ip netns exec " + namespacePrefix + host + " " }
	vip4, vip6 := l.plan.vips[0], l.plan.vips[len(l.plan.vips)-1]
	exe, first := l.opts.Executable, l.plan.members("web-a")[0]
	admin := " --admin " + l.plan.cfg.Gateway.AdminListen

	say("\nThe lab is up; Ctrl-C takes it down. In another terminal, as root:\n")
	say("  # connections from zone-a, zone-b, and from behind the VPN")
	say("  %scurl -s http://%s/", inside("client-a-1"), vip4)
	say("  %scurl -s 'http://[%s]/'", inside("client-b-1"), vip6)
	say("  %scurl -sN http://%s/stream", inside("client-vpn"), vip4)
	say("  # a backend that fails its health checks, and passes them again")
	say("  %scurl -s http://%s/fail", inside(routerName), l.plan.host(first).addr(false))
	say("  %scurl -s http://%s/heal", inside(routerName), l.plan.host(first).addr(false))
	say("  # what the gateway says")
	for _, what := range []string{"status", "backends", "zones"} {
		say("  %s %s%s", exe, what, admin)
	}
	say("  %s explain --config %s --client %s --service %s",
		exe, l.space.configPath(), l.plan.host("client-a-1").addr(false), serviceName)
	say("  %scurl -s http://%s/metrics", inside(gatewayName), l.plan.cfg.Gateway.MetricsListen)
	say("  # a backend taken out gracefully, and back in")
	say("  %s drain %s%s", exe, first, admin)
	say("  %s undrain %s%s", exe, first, admin)
	say("  # another configuration: edit %s, then", l.space.configPath())
	say("  kill -HUP %d; tail %s", l.gateway.proc.cmd.Process.Pid, l.space.logPath())
	say("\nWithout `ip`: nsenter --net=%s/%s%s curl -s http://%s/", netnsDir, namespacePrefix, "client-a-1", vip4)
	return b.String()
}
