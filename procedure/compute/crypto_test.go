// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// fakeOpenSSL computes known answers by the real one, and counts a number of blocks.
const fakeOpenSSL = `#!/bin/sh
case "$1 $FAKE_OPENSSL" in
"version "*) echo "OpenSSL 9.9.9 1 Jan 2030 (Library: OpenSSL 9.9.9)"; exit;;
"enc wrong") echo nonsense; exit;;
"enc "*) exec /usr/bin/openssl "$@";;
"speed crashes") kill -SEGV $$;;
esac
n=1000
case "$*" in *-decrypt*) n=3000;; esac
echo "+DT:AES-128-CBC:1:16384" >&2
echo "+R:$n:AES-128-CBC:0.500000" >&2
`

func cryptoOf(t *testing.T, set map[string]string) (procedure.Outcome, []result.Record, error) {
	t.Helper()
	p := newCrypto()
	roomtest.Assign(t, p.Flags, set)
	var recs []result.Record
	o, err := p.Run(t.Context(), roomtest.Env(&recs, nil))
	return o, recs, err
}

// fakeCrypto puts fakeOpenSSL before all programs.
func fakeCrypto(t *testing.T, how string) {
	t.Helper()
	if err := host.Has("openssl"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "openssl"), []byte(fakeOpenSSL), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("FAKE_OPENSSL", how)
}

// Both directions are measured after their known answer, and stand in one point.
func TestCrypto(t *testing.T) {
	testutil.NoLeaks(t)
	fakeCrypto(t, "")
	o, recs, err := cryptoOf(t, map[string]string{"cipher": "aes-cbc-128"})
	if err != nil || o.Status != result.Passed || len(recs) != 8 {
		t.Fatalf("%s %s, %d trials, %v", o.Status, o.Reason, len(recs), err)
	}
	if e, d := roomtest.Measured(t, o, "encrypt_bytes_per_s"), roomtest.Measured(t, o, "decrypt_bytes_per_s"); e != 1000*16384*2 || d != 3*e {
		t.Errorf("%v and %v octets/s", e, d)
	}
	if roomtest.Measured(t, o, "copies") != 1 || len(o.Copies) != 1 || len(o.Copies[0].Values) != 2 {
		t.Errorf("%+v, %+v", o.Values, o.Copies)
	}
	ids := map[string]bool{}
	for _, r := range recs {
		ids[result.Get(r.Config, "trial")+" "+result.Get(r.Config, "direction")] = true
		if result.Get(r.Config, "driver") != "OpenSSL_9.9.9_1_Jan_2030" || result.Get(r.Config, "cpu_features") == "" || result.Get(r.Config, "known_answer") != "aes-cbc-128" {
			t.Errorf("a trial is of %v", r.Config)
		}
	}
	if len(ids) != 8 {
		t.Errorf("trials are not told apart: %v", ids)
	}
}

func TestCryptoGoesWrong(t *testing.T) {
	testutil.NoLeaks(t)
	for _, c := range []struct {
		how, want string
		trials    int
	}{
		{"wrong", "aes-cbc-128 does not compute its known answer: 0x6e6f6e73656e73650a", 1},
		{"crashes", "openssl was ended by signal segmentation fault", 2},
	} {
		t.Run(c.how, func(t *testing.T) {
			fakeCrypto(t, c.how)
			o, recs, err := cryptoOf(t, map[string]string{"cipher": "aes-cbc-128"})
			if err != nil || o.Status != result.Failed || !strings.HasPrefix(o.Reason, c.want) || len(recs) != c.trials {
				t.Errorf("%s %q after %d trials, %v", o.Status, o.Reason, len(recs), err)
			}
		})
	}
	o, recs, err := cryptoOf(t, map[string]string{"cipher": "twofish-cbc-256"})
	if err != nil || o.Status != result.Skipped || o.Reason != "OpenSSL has no twofish-cbc-256" || len(recs) != 0 {
		t.Errorf("%s %q, %v", o.Status, o.Reason, err)
	}
}

// A kernel that has the sockets is measured; one without says what to do.
func TestCryptoByTheKernel(t *testing.T) {
	testutil.NoLeaks(t)
	o, _, err := cryptoOf(t, map[string]string{"path": "af-alg", "cipher": "aes-cbc-128"})
	var missing *host.Missing
	switch {
	case errors.As(err, &missing):
		if missing.Hint == "" {
			t.Errorf("no remedy: %v", err)
		}
		t.Skip(err)
	case err != nil || o.Status != result.Passed:
		t.Fatalf("%s %q, %v", o.Status, o.Reason, err)
	}
	if roomtest.Measured(t, o, "encrypt_bytes_per_s") <= 0 || roomtest.Measured(t, o, "decrypt_bytes_per_s") <= 0 {
		t.Errorf("%+v", o.Values)
	}
}

func TestCryptoParameters(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"block": "17"}, "block 17: want 0, or a multiple of 16"},
		{map[string]string{"path": "cryptsetup", "block": "4096"}, "path cryptsetup always takes 65536 octets at once"},
		{map[string]string{"path": "af-alg", "block": "131072"}, "takes at most 65536"},
		{map[string]string{"path": "botan", "block": "4096"}, ""},
	} {
		p := newCrypto()
		roomtest.Assign(t, p.Flags, c.set)
		if err := p.Check(nil); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v", c.set, err)
		}
	}
	if err := new(cipherFlag).Set("aes-cbc-100"); err == nil {
		t.Error("a key of 100 bits is taken")
	}
	for _, path := range []string{"openssl", "botan"} {
		p := newCrypto()
		roomtest.Assign(t, p.Flags, map[string]string{"path": path, "cipher": "rsa-4096"})
		if n, d := p.Estimate(); n != 4 || d <= 0 || d.Minutes() > 3 {
			t.Errorf("%s: %d trials in %v", path, n, d)
		}
	}
}
