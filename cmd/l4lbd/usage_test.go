package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExitStatus(t *testing.T) {
	good, bad := write(t, "good.yaml", testConfig), write(t, "bad.yaml", "nonsense: 1\n")
	nobody := "unix:" + filepath.Join(t.TempDir(), "none")
	tests := []struct {
		name   string
		args   []string
		status int
		stderr string // has this
	}{
		{"no command", nil, 2, "name a command"},
		{"an unknown command", []string{"statsu"}, 2, `unknown command "statsu"`},
		{"an unknown flag", []string{"status", "--all"}, 2, "unknown flag: --all"},
		{"an argument too many", []string{"validate", "--config", good, "x"}, 2, "l4lbd validate --help"},
		{"a flag that is missing", []string{"validate"}, 2, `"config" not set`},
		{"run without a configuration", []string{"run"}, 2, `"config" not set`},
		{"an output format that is none", []string{"version", "-o", "xml"}, 2, "use table or json"},
		{"a log format that is none", []string{"run", "--config", good, "--log-format", "xml"}, 2, "use text or json"},
		{"a configuration that is not there", []string{"validate", "--config", "none.yaml"}, 2, "open none.yaml"},
		{"a configuration with mistakes", []string{"validate", "--config", bad}, 2, bad + ":1:1: "},
		{"run with mistakes", []string{"run", "--config", bad}, 2, bad + ":1:1: "},
		{"a drain of nobody", []string{"drain", "--admin", nobody}, 2, "accepts 1 arg(s)"},
		{"a gateway that does not answer", []string{"status", "--admin", nobody}, 1, "is l4lbd running?"},
		{"man pages into nowhere", []string{"man", "--dir", filepath.Join(t.TempDir(), "none")}, 1, "no such file"},
		{"a capture that is not there", []string{"replay", "--config", good, "--pcap", "none.pcap"}, 2, "none.pcap"},
		{"a capture's filter with a mistake", []string{"capture", "--filter", "tcp port 80"}, 2, `filter:1:5: "port" is left over`},
		{"a capture of too long frames", []string{"capture", "--snaplen", "65536"}, 2, "use 1 to 65535"},
		{"a capture of no gateway", []string{"capture", "--admin", nobody}, 1, "is l4lbd running?"},
		{"a benchmark of a family that is none", []string{"bench", "--family", "ipv5"}, 2, "use ipv4 or ipv6"},
		{"a doctor without a patient", []string{"doctor"}, 2, "name the gateway's configuration with --config"},
		{"a doctor of a configuration with mistakes", []string{"doctor", "--config", bad}, 2, bad + ":1:1: "},
		{"a doctor of both sides", []string{"doctor", "--config", good, "--backend"}, 2, "[backend config]"},
		{"a backend without VIPs", []string{"doctor", "--backend"}, 2, "name each VIP"},
		{"a VIP that is no address", []string{"doctor", "--backend", "--vip", "web"}, 2, `--vip "web" is no IP address`},
		{"a gateway that is no address", []string{"doctor", "--backend", "--vip", "192.0.2.10", "--gateway", "gw"}, 2, "is no IP address"},
		{"a port that is none", []string{"doctor", "--backend", "--vip", "192.0.2.10", "--port", "0"}, 2, "not between 1 and 65535"},
		{"a tunnel that is none", []string{"doctor", "--backend", "--vip", "192.0.2.10", "--tunnel", "VXLAN"}, 2, "use L2 or IPIP"},
		{"help", []string{"--help"}, 0, ""},
		{"version", []string{"version"}, 0, ""},
		{"a good configuration", []string{"validate", "--config", good}, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, _, stderr := l4lbd(t, tt.args...)
			if status != tt.status || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("status %d, want %d; stderr %q, want %q in it", status, tt.status, stderr, tt.stderr)
			}
			if tt.stderr == "" && stderr != "" {
				t.Errorf("stderr %q, want none", stderr)
			}
		})
	}
}

func TestValidatePrintsEveryMistakeOnItsLine(t *testing.T) {
	text := strings.NewReplacer("ports: [80]", "ports: [80, 99999]", "backendService: web}", "backendService: wbe}").Replace(testConfig)
	path := write(t, "f.yaml", text)
	status, stdout, stderr := l4lbd(t, "validate", "--config", path)
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if status != 2 || stdout != "" || len(lines) != 2 {
		t.Fatalf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, path+":21:") {
			t.Errorf("line %q does not say where", line)
		}
	}
}

func TestVersionAsJSON(t *testing.T) {
	_, stdout, _ := l4lbd(t, "version", "-o", "json")
	for _, key := range []string{`"version"`, `"goVersion"`, `"os"`, `"arch"`} {
		if !strings.Contains(stdout, key) {
			t.Errorf("%s is missing in %s", key, stdout)
		}
	}
}

func TestEveryShellHasACompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		status, stdout, stderr := l4lbd(t, "completion", shell)
		if status != 0 || !strings.Contains(stdout, "l4lbd") {
			t.Errorf("%s: status %d, %d bytes, %s", shell, status, len(stdout), stderr)
		}
	}
}

func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if status, _, stderr := l4lbd(t, "man", "--dir", dir); status != 0 {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, "l4lbd-explain.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		".TH L4LBD-EXPLAIN 1", ".SH NAME\nl4lbd-explain \\- Say which", `\fB\-\-client\fR \fIIP\fR`, `\fB\-o\fR, \fB\-\-output\fR`, ".BR l4lbd (1)",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page of explain lacks %q:\n%s", want, text)
		}
	}
	pages, _ := filepath.Glob(filepath.Join(dir, "l4lbd*.1"))
	root := newRootCommand(&env{})
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && !strings.Contains(strings.Join(pages, "\n"), "l4lbd-"+c.Name()+".1") {
			t.Errorf("%s has no page", c.Name())
		}
	}
}

func TestRoffEscapes(t *testing.T) {
	got := roff("a - b\\c\n\n.start\n  l4lbd run\n'quoted")
	want := "a \\- b\\ec\n.PP\n\\&.start\n.br\n\\&  l4lbd run\n\\&'quoted"
	if got != want {
		t.Errorf("roff = %q, want %q", got, want)
	}
}
