package sky

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Compilers for arm64 may turn x*y+z into one instruction that rounds once. This reads what the compiler made of the package for
// arm64 and accepts such an instruction only on a line that asks for it by name.
func TestNoProductIsFusedIntoASumUnasked(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for another architecture")
	}
	cmd := exec.Command("go", "build", "-gcflags=-S", ".")
	cmd.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	listing, err := cmd.CombinedOutput()
	if err != nil {
		t.Skipf("the compiler for arm64 does not run here: %v", err)
	}
	fused := regexp.MustCompile(`/(\w+\.go):(\d+)\)\s+FN?M(?:ADD|SUB)[DS]\s`)
	sources := map[string][]string{}
	asked := 0
	lines := bufio.NewScanner(bytes.NewReader(listing))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := fused.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		if sources[m[1]] == nil {
			raw, err := os.ReadFile(m[1])
			if err != nil {
				t.Fatal(err)
			}
			sources[m[1]] = strings.Split(string(raw), "\n")
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		if src := sources[m[1]][n-1]; strings.Contains(src, "math.FMA(") {
			asked++
		} else {
			t.Errorf("%s:%d is fused on arm64: %s", m[1], n, strings.TrimSpace(src))
		}
	}
	if asked == 0 {
		t.Error("the listing shows none of the fused products that the package asks for: it was not understood")
	}
}
