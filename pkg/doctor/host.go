package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// The oldest kernel that the data plane is made for.
const (
	leastMajor = 6
	leastMinor = 1
)

func checkKernel(context.Context, *gateway) ([]Finding, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil, fmt.Errorf("uname: %w", err)
	}
	return []Finding{kernelFinding(unix.ByteSliceToString(u.Release[:]))}, nil
}

func kernelFinding(release string) Finding {
	major, minor, ok := kernelVersion(release)
	switch {
	case !ok:
		return Finding{Status: Warning, What: fmt.Sprintf("the kernel's version %q has no form that is known", release)}
	case major < leastMajor || major == leastMajor && minor < leastMinor:
		return Finding{
			Status: Problem, What: fmt.Sprintf("Linux %s is older than %d.%d", release, leastMajor, leastMinor),
			Why:  "the program may be refused by the verifier, and was never tested there",
			Mend: []string{"apt-get install linux-image-amd64", "systemctl reboot"},
		}
	}
	return well("", "Linux %s", release)
}

func kernelVersion(release string) (major, minor int, ok bool) {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	digits, _, _ := strings.Cut(parts[1], "-")
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(digits)
	return major, minor, err == nil && err2 == nil
}

// capabilities are those that the daemon uses, as in linux/capability.h.
var capabilities = []struct {
	name string
	bit  uint
}{{"CAP_NET_ADMIN", 12}, {"CAP_NET_RAW", 13}, {"CAP_PERFMON", 38}, {"CAP_BPF", 39}}

// capSysAdmin stands for those of BPF.
const capSysAdmin = 21

// checkBPF makes a map and a program, and lets them go.
func checkBPF(context.Context, *gateway) ([]Finding, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	if missing := missingCapabilities(string(text)); len(missing) > 0 {
		return []Finding{{
			Status: Problem, What: "this process lacks " + strings.Join(missing, ", "),
			Why:  "the daemon can neither load nor attach its program without them, and the doctor sees less",
			Mend: []string{"sudo l4lbd doctor", "systemctl start l4lbd"},
		}}, nil
	}
	// An error shows in what follows.
	_ = rlimit.RemoveMemlock()
	if err := tryBPF(); err != nil {
		f := Finding{Status: Problem, What: fmt.Sprintf("the kernel refuses BPF: %v", err), Why: "the daemon cannot load its program"}
		if errors.Is(err, unix.EPERM) {
			f.Mend = []string{"ulimit -l unlimited", "cat /sys/kernel/security/lockdown"}
		}
		return []Finding{f}, nil
	}
	return []Finding{well("", "maps and programs can be made")}, nil
}

func tryBPF() error {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("make a map: %w", err)
	}
	defer m.Close()
	const xdpPass = 2
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	})
	if err != nil {
		return fmt.Errorf("load an XDP program: %w", err)
	}
	return p.Close()
}

// missingCapabilities reads a process's status.
func missingCapabilities(status string) []string {
	_, rest, _ := strings.Cut(status, "CapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	have, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		return []string{"a readable list of capabilities"}
	}
	admin := have&(1<<capSysAdmin) != 0
	var out []string
	for _, c := range capabilities {
		if have&(1<<c.bit) == 0 && !(admin && c.bit > capSysAdmin) {
			out = append(out, c.name)
		}
	}
	return out
}

func checkBPFFileSystem(_ context.Context, g *gateway) ([]Finding, error) {
	var fs unix.Statfs_t
	err := unix.Statfs(g.BPFDir, &fs)
	switch {
	case err == nil && fs.Type == unix.BPF_FS_MAGIC:
		return []Finding{well(g.BPFDir, "mounted")}, nil
	case err != nil && !errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("look at %s: %w", g.BPFDir, err)
	}
	f := Finding{
		Subject: g.BPFDir, Status: Problem, What: "no BPF file system is mounted",
		Why:  "flows and the program are kept there over restarts; l4lbd mounts it only where it has CAP_SYS_ADMIN, which its unit does not give",
		Mend: []string{"mount -t bpf bpf " + g.BPFDir},
	}
	if err != nil {
		f.Mend = append([]string{"mkdir -p " + g.BPFDir}, f.Mend...)
	}
	return []Finding{f}, nil
}
