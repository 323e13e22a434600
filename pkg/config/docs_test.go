package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"l4lb/pkg/lb"
)

// documentedAs is the heading under which a key is explained: instance groups
// are network endpoint groups, and the blocks of health checks share theirs.
func documentedAs(key string) string {
	if rest, ok := strings.CutPrefix(key, "instanceGroups[]"); ok {
		key = "networkEndpointGroups[]" + rest
	}
	return regexp.MustCompile(`\w+HealthCheck\.`).ReplaceAllString(key, "*HealthCheck.")
}

func TestEveryKeyIsDocumented(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "setup", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(data), "\n### `")[1:] {
		key, body, _ := strings.Cut(section, "`\n")
		body, _, _ = strings.Cut(body, "\n## ")
		if _, twice := sections[key]; twice {
			t.Errorf("%s has two headings", key)
		}
		sections[key] = body
	}
	known := map[string]bool{}
	for _, key := range rootSchema().keys() {
		heading := documentedAs(key)
		body, ok := sections[heading]
		switch {
		case known[heading]:
		case !ok:
			t.Errorf("configuration.md has no heading ### `%s`", heading)
		case !strings.Contains(body, "Live connections: "):
			t.Errorf("%s does not say what changing it does to live connections", heading)
		case !strings.Contains(body, "Mapping") && !strings.Contains(body, "Default:") && !strings.Contains(body, "Required"):
			t.Errorf("%s has neither a default nor is it required", heading)
		}
		known[heading] = true
	}
	for heading := range sections {
		if !known[heading] {
			t.Errorf("configuration.md explains %s, which is not a key", heading)
		}
	}
	if want := "Default: `" + string(lb.DefaultLocalityLbPolicy) + "`"; !strings.Contains(sections["backendServices[].localityLbPolicy"], want) {
		t.Errorf("localityLbPolicy does not say %s", want)
	}
}

func TestKeysNameTheWholeSchema(t *testing.T) {
	keys := map[string]bool{}
	for _, k := range rootSchema().keys() {
		keys[k] = true
	}
	for _, want := range []string{
		"l4lb.gateway.flowTable.entries",
		"instanceGroups[].networkEndpoints[].ipAddress",
		"healthChecks[].grpcTlsHealthCheck.grpcServiceName",
		"backendServices[].networkPassThroughLbTrafficPolicy.zonalAffinity.spilloverRatio",
		"routes[].nextHopIlb",
	} {
		if !keys[want] {
			t.Errorf("keys() does not list %s", want)
		}
	}
}

func TestPackagedExampleIsValid(t *testing.T) {
	path := filepath.Join("..", "..", "packaging", "l4lbd.yaml")
	doc, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Warnings) > 0 {
		t.Errorf("warnings: %v", doc.Warnings)
	}
	// What it shows commented out is the default: switched on, it changes nothing.
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(data), "\n\n")
	on := regexp.MustCompile(`(?m)^( *)# `).ReplaceAllString(body, "$1")
	on = strings.ReplaceAll(on, "region: region-1", "")
	all, err := Parse("example with all defaults", []byte(on))
	if err != nil {
		t.Fatal(err)
	}
	if diff := diffConfig(doc.Config, all.Config); diff != "" {
		t.Errorf("a commented value is not the default (-commented +switched on):\n%s", diff)
	}
}
