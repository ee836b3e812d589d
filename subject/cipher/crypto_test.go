// SPDX-License-Identifier: Apache-2.0

package cipher

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/subject"
)

// cryptoOutput is what a program printed.
func cryptoOutput(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "crypto", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// toldFigures are figures in words, in whole numbers.
func toldFigures(vs []result.Value) string {
	var parts []string
	for _, v := range vs {
		parts = append(parts, fmt.Sprintf("%s=%.0f", v.Metric, v.Value))
	}
	return strings.Join(parts, " ")
}

func TestReadCrypto(t *testing.T) {
	for _, c := range []struct {
		path, cipher, direction string
		stdout, stderr          string
		want                    string
	}{
		{"openssl", "aes-cbc-128", Encrypt, "", "openssl-3.0-aes-128-cbc.txt", "encrypt"},
		{"openssl", "aes-cbc-128", Decrypt, "", "openssl-3.0-aes-128-cbc.txt", "decrypt"},
		{"openssl", "rsa-2048", Both, "", "openssl-3.5-rsa2048-mlkem-mldsa.txt", "signs_per_s=1724 verifies_per_s=28918"},
		{"openssl", "ml-kem-768", Both, "", "openssl-3.5-rsa2048-mlkem-mldsa.txt", "keygens_per_s=14906 encapsulations_per_s=25700 decapsulations_per_s=15365"},
		{"openssl", "ml-dsa-65", Both, "", "openssl-3.5-rsa2048-mlkem-mldsa.txt", "keygens_per_s=3966 signs_per_s=787 verifies_per_s=4404"},
		{"cryptsetup", "aes-cbc-128", Both, "cryptsetup-2.6.1.txt", "", "encrypt_bytes_per_s=22649242 decrypt_bytes_per_s=21705523"},
		{"cryptsetup", "twofish-xts-512", Both, "cryptsetup-2.6.1.txt", "", "encrypt_bytes_per_s=15623782 decrypt_bytes_per_s=24012390"},
		{"cryptsetup", "adiantum", Both, "cryptsetup-2.6.1.txt", "", "encrypt_bytes_per_s=33239859 decrypt_bytes_per_s=49178214"},
		{"botan", "aes-cbc-128", Both, "botan-2.19-aes.txt", "", "encrypt_bytes_per_s=510352833 decrypt_bytes_per_s=3740130576"},
	} {
		s := testCrypto(t, c.path, c.cipher)
		s.Direction = c.direction
		var w subject.Worked
		if c.stdout != "" {
			w.Stdout = cryptoOutput(t, c.stdout)
		} else {
			w.Stderr = cryptoOutput(t, c.stderr)
		}
		vs, err := s.path.read(s, w)
		got := toldFigures(vs)
		if err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %s: %s, %v; want %s", c.path, c.cipher, got, err, c.want)
		}
	}
	// 3.0 and Botan name other lines: every figure of a scheme is found, and only its own.
	for _, c := range []struct{ path, cipher, file, want string }{
		{"openssl", "rsa-2048", "openssl-3.0-rsa2048-ecdsap256.txt", "signs_per_s verifies_per_s"},
		{"openssl", "ecdsa-p256", "openssl-3.0-rsa2048-ecdsap256.txt", "signs_per_s verifies_per_s"},
		{"openssl", "ed25519", "openssl-3.0-ed25519-ecdhx25519.txt", "signs_per_s verifies_per_s"},
		{"openssl", "x25519", "openssl-3.0-ed25519-ecdhx25519.txt", "agreements_per_s"},
		{"botan", "rsa-3072", "botan-2.19-asymmetric.txt", "signs_per_s verifies_per_s"},
		{"botan", "ecdsa-p256", "botan-2.19-asymmetric.txt", "signs_per_s verifies_per_s"},
		{"botan", "ml-kem-768", "botan-3.7.txt", "keygens_per_s encapsulations_per_s decapsulations_per_s"},
		{"botan", "ml-dsa-65", "botan-3.7.txt", "signs_per_s verifies_per_s"},
	} {
		s := testCrypto(t, c.path, c.cipher)
		vs, err := s.path.read(s, subject.Worked{Stdout: cryptoOutput(t, c.file), Stderr: cryptoOutput(t, c.file)})
		var names []string
		for _, v := range vs {
			names = append(names, v.Metric)
		}
		if err != nil || strings.Join(names, " ") != c.want {
			t.Errorf("%s %s: %v, %v", c.path, c.cipher, names, err)
		}
	}
}

// What measured nothing is a sentence, never a figure of 0.
func TestReadCryptoGoesWrong(t *testing.T) {
	for _, c := range []struct {
		path, cipher   string
		stdout, stderr string
		want           string
	}{
		{"openssl", "aes-cbc-128", "", cryptoOutput(t, "openssl-3.0-unknown.txt"), "unknown cipher"},
		{"openssl", "aes-cbc-128", "", "+DT:X:1:16384\n+R:0:X:1.0\n", `counts "0"`},
		{"openssl", "aes-cbc-128", "", "+DT:X:1:16384\n+R:5:X:0.0\n", "counts"},
		{"openssl", "aes-cbc-128", "", "+R:5:X:1.0\n", "measured nothing"},
		{"openssl", "rsa-2048", "", cryptoOutput(t, "openssl-3.0-ed25519-ecdhx25519.txt"), "measured nothing"},
		{"botan", "aes-cbc-128", "[\n]\n", "Unknown algorithm 'AES'\n", "measured nothing: unknown algorithm 'AES'"},
		{"botan", "aes-cbc-128", "", "", "it said nothing"},
		{"botan", "aes-cbc-128", `[{"algo":"X","op":"encrypt","events":5,"nanos":0}]`, "", "counts 5 in 0 ns"},
		{"botan", "aes-cbc-128", `[{"algo":`, "", "no list of results"},
		{"cryptsetup", "aes-cbc-128", "# Tests are approximate using memory only (no storage IO).\n", "Required kernel crypto interface not available.\n", "Required kernel crypto interface"},
		{"cryptsetup", "aes-cbc-128", "        aes-cbc        128b               N/A               N/A\n", "", "prints no row of aes-cbc with 128 bits"},
		{"af-alg", "aes-cbc-128", "", "", "printed"},
		{"af-alg", "aes-cbc-128", `{"octets":0,"took_ns":5}`, "", "encrypted nothing"},
	} {
		s := testCrypto(t, c.path, c.cipher)
		if vs, err := s.path.read(s, subject.Worked{Stdout: c.stdout, Stderr: c.stderr}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %q %q: %v, %v", c.path, c.stdout, c.stderr, vs, err)
		}
	}
}

// No output of a program makes a figure that is not a positive number.
func FuzzReadCrypto(f *testing.F) {
	for _, name := range []string{"openssl-3.0-aes-128-cbc.txt", "openssl-3.5-rsa2048-mlkem-mldsa.txt", "botan-2.19-aes.txt", "botan-3.7.txt", "cryptsetup-2.6.1.txt"} {
		f.Add(cryptoOutput(f, name))
	}
	f.Add("        aes-xts        256b      1163.5 MiB/s      3716.9 MiB/s\n")
	f.Add(`{"octets":65536,"took_ns":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, path := range Paths() {
			for _, name := range []string{"aes-xts-256", "rsa-2048", "ml-kem-768"} {
				s := testCrypto(t, path, name)
				if s.Lacks() != nil {
					continue
				}
				vs, err := s.path.read(s, subject.Worked{Stdout: text, Stderr: text})
				if err == nil && len(vs) == 0 {
					t.Errorf("%s: neither figures nor an error", path)
				}
				for _, v := range vs {
					if !(v.Value > 0) || math.IsInf(v.Value, 0) {
						t.Errorf("%s: %+v", path, v)
					}
				}
			}
		}
	})
}

func FuzzKernelDriver(f *testing.F) {
	f.Add(cryptoOutput(f, "proc-crypto-6.18.txt"), "cbc(aes)")
	f.Fuzz(func(t *testing.T, text, name string) {
		if d, err := kernelDriver(text, algName{"skcipher", name}); (err == nil) == (d == "") {
			t.Errorf("%q, %v", d, err)
		}
	})
}

func TestKernelDriver(t *testing.T) {
	text := cryptoOutput(t, "proc-crypto-6.18.txt")
	cbc := algName{"skcipher", "cbc(aes)"}
	if d, err := kernelDriver(text, cbc); err != nil || d != "cbc(ecb(aes-fixed-time))" {
		t.Errorf("%q, %v", d, err)
	}
	more := text + "\n\nname : cbc(aes)\ndriver : cbc-aes-fast\npriority : 400\ninternal : no\ntype : skcipher\n" +
		"\nname : cbc(aes)\ndriver : cbc-aes-slow\npriority : 90\ninternal : no\ntype : skcipher\n" +
		"\nname : cbc(aes)\ndriver : cbc-aes-inner\npriority : 500\ninternal : yes\ntype : skcipher\n" +
		"\nname : cbc(aes)\ndriver : cbc-aes-hash\npriority : 600\ninternal : no\ntype : shash\n" +
		"\nname : cbc(aes)\ndriver : cbc-aes-broken\npriority : 700\nselftest : unknown\ninternal : no\ntype : skcipher\n"
	if d, err := kernelDriver(more, cbc); err != nil || d != "cbc-aes-fast" {
		t.Errorf("%q, %v: that of the highest priority computes", d, err)
	}
	for _, absent := range []algName{{"skcipher", "xts(serpent)"}, {"aead", "cbc(aes)"}} {
		if d, err := kernelDriver(text, absent); err == nil {
			t.Errorf("%q", d)
		}
	}
}

func TestCPUFeatures(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nflags\t\t: fpu aes sse2 avx2\n\nprocessor\t: 1\nflags\t\t: vaes\n": "aes avx2",
		"Features\t: fp asimd aes pmull\n":                                                  "asimd aes pmull",
		"isa\t\t: rv64imafdc_zba_zkne\n":                                                    "zkne",
		"processor : 0\nmodel name : ARMv6\n":                                               "none",
	} {
		got, err := cpuFeatures(fstest.MapFS{"proc/cpuinfo": {Data: []byte(text)}})
		if err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// Each program computes its known answers here, is measured, and refuses wrong ones.
func TestCryptoByPrograms(t *testing.T) {
	testutil.NoLeaks(t)
	h := &host.Local{}
	for _, c := range []struct{ path, cipher, metric string }{
		{"openssl", "aes-xts-256", "encrypt_bytes_per_s"},
		{"openssl", "camellia-cbc-256", ""},
		{"openssl", "chacha20", ""},
		{"openssl", "aes-gcm-128", ""},
		{"openssl", "ecdsa-p256", ""},
		{"openssl", "rsa-2048", ""},
		{"openssl", "ed25519", ""},
		{"openssl", "x25519", ""},
		{"botan", "aes-xts-256", "decrypt_bytes_per_s"},
		{"botan", "twofish-cbc-256", "encrypt_bytes_per_s"},
		{"botan", "serpent-xts-512", ""},
		{"botan", "camellia-cbc-128", ""},
		{"botan", "aes-gcm-256", ""},
		{"botan", "chacha20", ""},
		{"botan", "rsa-2048", ""},
		{"botan", "ecdsa-p256", ""},
		{"botan", "x25519", "agreements_per_s"},
		{"af-alg", "aes-cbc-128", "encrypt_bytes_per_s"},
		{"af-alg", "twofish-xts-512", "encrypt_bytes_per_s"},
		{"af-alg", "aes-gcm-256", "encrypt_bytes_per_s"},
		{"cryptsetup", "aes-xts-256", "decrypt_bytes_per_s"},
	} {
		t.Run(c.path+" "+c.cipher, func(t *testing.T) {
			s := testCrypto(t, c.path, c.cipher)
			s.For = 5 * time.Millisecond
			var missing *host.Missing
			if err := s.Check(t.Context(), h); errors.As(err, &missing) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			pairs, err := s.Identify(t.Context(), h)
			if err != nil || result.Get(pairs, "driver") == "" || result.Get(pairs, "cpu_features") == "" || result.Get(pairs, "known_answer") == "" {
				t.Fatalf("%v, %v", pairs, err)
			}
			if err := s.Prove(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			if c.metric == "" {
				return
			}
			r, err := s.Start(t.Context(), subject.Env{})
			if err != nil {
				t.Fatal(err)
			}
			w := r.(*subject.Working)
			defer func() {
				if err := w.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			if err := errors.Join(w.Ready(t.Context()), w.Begin()); err != nil {
				t.Fatal(err)
			}
			vs, err := w.Wait(t.Context())
			if err != nil || !slices.ContainsFunc(vs, func(v result.Value) bool { return v.Metric == c.metric && v.Value > 0 }) {
				t.Errorf("%v, %v", vs, err)
			}
		})
	}
}

// A library without ML-KEM and ML-DSA is missing something, and has not failed.
func TestCryptoOfOldLibraries(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"openssl": `[ "$1" != genpkey ] || { echo "Algorithm $3 not found" >&2; exit 1; }`,
		"botan":   `echo "Unknown algorithm '$4'" >&2; echo "[ ]"`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, path := range []string{"openssl", "botan"} {
		for _, cipher := range []string{"ml-kem-768", "ml-dsa-65"} {
			var missing *host.Missing
			if err := testCrypto(t, path, cipher).Check(t.Context(), &host.Local{}); !errors.As(err, &missing) || !strings.Contains(missing.Hint, "or newer") {
				t.Errorf("%s %s: %v", path, cipher, err)
			}
		}
		if err := testCrypto(t, path, "rsa-2048").Check(t.Context(), &host.Local{}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "botan"), []byte("#!/bin/sh\ncat <<'END'\n"+cryptoOutput(t, "botan-3.7.txt")+"\nEND\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "openssl"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"openssl", "botan"} {
		if err := testCrypto(t, path, "ml-kem-1024").Check(t.Context(), &host.Local{}); err != nil {
			t.Errorf("%s has it: %v", path, err)
		}
	}
}

// A program that computes something else is found out.
func TestCryptoWrongAnswer(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"openssl", "botan"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho 2.19 wrong\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, c := range []struct{ path, cipher, want string }{
		{"openssl", "aes-cbc-128", "aes-cbc-128 does not compute its known answer"},
		{"openssl", "x25519", "x25519 does not compute its known answer"},
		{"openssl", "ed25519", "verifies a signature of another text"},
		{"botan", "aes-xts-256", "aes-xts-256 does not compute its known answer"},
		{"botan", "serpent-cbc-256", "serpent-cbc-256 does not compute its known answer"},
		{"botan", "rsa-2048", "does not tell a known signature"},
	} {
		if err := testCrypto(t, c.path, c.cipher).Prove(t.Context(), &host.Local{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.path, c.cipher, err)
		}
	}
}
