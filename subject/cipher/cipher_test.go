// SPDX-License-Identifier: Apache-2.0

package cipher

import (
	"strings"
	"testing"
)

func TestParseCipher(t *testing.T) {
	for name, want := range map[string]Cipher{
		"aes-xts-256":     {Name: "aes-xts-256", Algorithm: "aes", Mode: "xts", Bits: 256},
		"twofish-cbc-128": {Name: "twofish-cbc-128", Algorithm: "twofish", Mode: "cbc", Bits: 128},
		"chacha20":        {Name: "chacha20", Algorithm: "chacha20", Bits: 256},
		"ml-kem-768":      {Name: "ml-kem-768", Algorithm: "ml-kem", Variant: "768", Kind: Encapsulation},
	} {
		if c, err := Parse(name); err != nil || c != want {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	for name, want := range map[string]string{
		"rot-cbc-13":      `there is no cipher "rot-cbc-13"`,
		"aes-cbc-100":     "in mode cbc aes has keys of 128, 192, 256 bits, not of 100",
		"serpent-xts-128": "in mode xts serpent has keys of 256, 384, 512 bits, not of 128",
		"aes-cbc":         "not of none",
		"aes-ecb-128":     `"ecb" is no mode`,
		"3des-xts-384":    "in mode cbc only",
		"":                "there is no cipher",
		"aes-cbc-128-x":   "not of 128-x",
	} {
		if c, err := Parse(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v", name, c, err)
		}
	}
}

// Each path has the ciphers that it has, and says why it has no others.
func TestCryptoPathsLack(t *testing.T) {
	for _, c := range []struct{ path, cipher, lacks string }{
		{"openssl", "aes-xts-256", ""},
		{"openssl", "twofish-cbc-256", "OpenSSL has no twofish-cbc-256"},
		{"openssl", "aes-xts-384", "OpenSSL has no aes-xts-384"},
		{"openssl", "ml-kem-768", ""},
		{"botan", "twofish-cbc-256", ""},
		{"botan", "twofish-cbc-128", "it takes the longest key of twofish, which is of 256 bits"},
		{"botan", "serpent-xts-256", "which is of 512 bits"},
		{"botan", "adiantum", "Botan has no adiantum"},
		{"cryptsetup", "adiantum", ""},
		{"cryptsetup", "chacha20", "cryptsetup benchmark has no chacha20"},
		{"cryptsetup", "ed25519", "cryptsetup benchmark has no ed25519"},
		{"af-alg", "serpent-xts-512", ""},
		{"af-alg", "aes-gcm-128", ""},
		{"af-alg", "chacha20-poly1305", ""},
		{"af-alg", "aes-ccm-128", "AF_ALG has no aes-ccm-128 here: of authenticated ciphers it has gcm and chacha20-poly1305"},
		{"af-alg", "rsa-2048", "AF_ALG has no rsa-2048"},
	} {
		s := testCrypto(t, c.path, c.cipher)
		if err := s.Lacks(); c.lacks == "" && err != nil || c.lacks != "" && (err == nil || !strings.Contains(err.Error(), c.lacks)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	s := testCrypto(t, "cryptsetup", "aes-cbc-128")
	for block, want := range map[int]string{0: "", 65536: "", 4096: "always takes 65536 octets", 17: "multiple of 16"} {
		s.Block = block
		if err := s.Takes(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("block %d: %v", block, err)
		}
	}
	s = testCrypto(t, "af-alg", "aes-cbc-128")
	if s.Block = 1 << 17; s.Takes() == nil {
		t.Error("the kernel takes 128 KiB at once")
	}
	if _, err := New("abacus"); err == nil || !strings.Contains(err.Error(), "af-alg, cryptsetup, openssl, botan") {
		t.Error(err)
	}
}

func testCrypto(t testing.TB, path, cipher string) *Crypto {
	t.Helper()
	s, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	if s.Cipher, err = Parse(cipher); err != nil {
		t.Fatal(err)
	}
	s.Direction = s.Directions()[0]
	return s
}
