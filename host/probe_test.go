// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"testing"
)

// Each probe either works or says what is missing; none may have no answer here.
func TestProbes(t *testing.T) {
	for name, probe := range map[string]func() error{"namespace": ProbeNamespace, "BPF": ProbeBPF, "packet": ProbePacket, "BTF": ProbeBTF} {
		err := probe()
		var missing *Missing
		if err != nil && !errors.As(err, &missing) && !errors.Is(err, ErrNotSupported) {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %v", name, err)
	}
}

// A kernel with BPF takes the probe's program, or asks for a privilege.
func TestProbeBPF(t *testing.T) {
	if _, err := os.Stat("/proc/sys/kernel/unprivileged_bpf_disabled"); err != nil {
		t.Skip("this kernel has no BPF")
	}
	if err := ProbeBPF(); errors.Is(err, ErrNotSupported) {
		t.Error(err)
	}
}
