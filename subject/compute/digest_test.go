// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/subject"
)

// The digests in this binary are those of Go's own functions, where it has them.
func TestDigestsAreRight(t *testing.T) {
	zeros := make([]byte, 1_000_000)
	for _, c := range []struct{ algorithm, abc, zeros string }{
		{"sha1", sum1([]byte("abc")), sum1(zeros)},
		{"sha256", sum256([]byte("abc")), sum256(zeros)},
	} {
		if digestVectors[c.algorithm] != c.abc || digestZeros(c.algorithm, 1_000_000) != c.zeros {
			t.Errorf("%s: %s, %s", c.algorithm, c.abc, c.zeros)
		}
	}
	for _, a := range DigestAlgorithms() {
		if n := len(digestVectors[a]); len(digestZeros(a, 2_000_000_000)) != n || len(digestZeros(a, 1_000_000)) != n || digestZeros(a, 7) != "" {
			t.Errorf("%s: digests of other lengths", a)
		}
	}
}

func sum1(b []byte) string { s := sha1.Sum(b); return hex.EncodeToString(s[:]) }

func sum256(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }

// Each program gives the published digest of each function, and then that of the zeros.
func TestDigest(t *testing.T) {
	for _, spec := range HashSpecs() {
		for _, a := range DigestAlgorithms() {
			d := spec.New().(*Digest)
			d.Algorithm, d.Size = a, 1_000_000
			var missing *host.Missing
			if err := d.Check(t.Context(), &host.Local{}); errors.As(err, &missing) {
				t.Skip(missing)
			} else if err != nil {
				t.Fatal(err)
			}
			if err := d.Prove(t.Context(), &host.Local{}); err != nil {
				t.Errorf("%s, %s: %v", spec.Name, a, err)
			}
			if of, err := d.Identify(t.Context(), &host.Local{}); err != nil || of[0].Value == "" {
				t.Errorf("%v, %v", of, err)
			}
			r, err := d.Start(t.Context(), subject.Env{})
			if err != nil {
				t.Fatal(err)
			}
			run := r.(*subject.Working)
			if err := errors.Join(run.Ready(t.Context()), run.Begin()); err != nil {
				t.Error(err)
			}
			if vs, err := run.Wait(t.Context()); err != nil || len(vs) != 1 || vs[0].Value <= 0 {
				t.Errorf("%s, %s: %v, %v", spec.Name, a, vs, err)
			}
			if err := run.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestDigestIsCompared(t *testing.T) {
	d := &Digest{Algorithm: "sha1", Size: 1, of: opensslDigest}
	right := digestVectors["sha1"]
	if err := d.compare(right+" *stdin\n", right, "it"); err != nil {
		t.Error(err)
	}
	for printed, want := range map[string]string{
		strings.Replace(right, "a", "b", 1) + " *stdin": "and not b9993e",
		"": "no sha1 digest", "abc -": "no sha1 digest", strings.Repeat("x", 40): "no sha1 digest",
	} {
		if err := d.compare(printed, right, "it"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", printed, err)
		}
	}
	d.Algorithm = "md5"
	if err := d.Check(t.Context(), &host.Local{}); err == nil || !strings.Contains(err.Error(), "sha1, sha256, blake2b") {
		t.Errorf("%v", err)
	}
}
