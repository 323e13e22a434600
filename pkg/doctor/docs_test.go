package doctor

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var checkRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*) \\|")

// The document has a row for each check, in their order, with the check's text.
func TestChecksAndTheirDocumentAgree(t *testing.T) {
	text, err := os.ReadFile("../../docs/setup/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []Info
	for _, m := range checkRow.FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, Info{m[1], m[2]})
	}
	if diff := cmp.Diff(append(GatewayChecks(), BackendChecks()...), documented); diff != "" {
		t.Errorf("docs/setup/doctor.md (-checks +documented):\n%s", diff)
	}
}
