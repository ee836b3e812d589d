// SPDX-License-Identifier: Apache-2.0

package cipher

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
)

// botanPath is botan speed, of Botan 2 and 3. It measures encryption and decryption one
// after the other: first for the time given, then as much as that was.
var botanPath = cryptoPath{
	name: "botan", doc: "Botan's own measurement (botan speed), of its library on one CPU",
	needs: botanNeeds,
	lacks: func(c Cipher) error {
		_, err := botanName(c)
		return err
	},
	block: 16384,
	identify: func(ctx context.Context, h *host.Local, _ Cipher) ([]result.Pair, error) {
		version, err := h.Run(ctx, "", "botan", "version")
		if err != nil {
			return nil, err
		}
		out, err := h.Run(ctx, "", "botan", "cpuid")
		if err != nil {
			return nil, err
		}
		_, flags, _ := strings.Cut(strings.TrimSpace(string(out)), ": ")
		if flags == "" {
			flags = "none"
		}
		return []result.Pair{{Key: "driver", Value: "Botan " + strings.TrimSpace(string(version))}, {Key: "cpu_features", Value: flags}}, nil
	},
	proof: botanProof,
	prove: botanProve,
	argv: func(s *Crypto) ([]string, error) {
		name, err := botanName(s.Cipher)
		argv := []string{"botan", "speed", "--format=json", "--msec=" + strconv.FormatInt(max(s.For.Milliseconds(), 1), 10)}
		switch {
		case s.Cipher.Algorithm == "ecdsa":
			argv = append(argv, "--ecc-groups="+botanGroups[s.Cipher.Variant])
		case s.Cipher.Kind == Encryption:
			argv = append(argv, "--buf-size="+strconv.Itoa(s.Octets()))
		}
		argv = append(argv, name)
		if s.Cipher.Name == "x25519" { // as Botan 2 calls it; each passes over the other's name
			argv = append(argv, "Curve25519")
		}
		return argv, err
	},
	read: func(s *Crypto, w subject.Worked) ([]result.Value, error) {
		return parseBotan(s.Cipher, w.Stdout, w.Stderr)
	},
}

// botanNeeds: ML-KEM and ML-DSA came with 3.6, and other names of them before.
func botanNeeds(ctx context.Context, h *host.Local, c Cipher) error {
	if err := host.Has("botan"); err != nil || !c.lattice() {
		return err
	}
	name, err := botanName(c)
	if err != nil {
		return err
	}
	out, err := h.Run(ctx, "", "botan", "speed", "--format=json", "--msec=1", name)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		_, err = parseBotan(c, string(out), "")
	}
	if err != nil {
		return &host.Missing{What: c.Name + " in this machine's Botan, whose command speed does not know it", Hint: "install Botan 3.6 or newer: Debian 13's package botan is"}
	}
	return nil
}

var botanGroups = map[string]string{"p256": "secp256r1", "p384": "secp384r1", "p521": "secp521r1"}

var botanSets = map[string]string{"44": "4x4", "65": "6x5", "87": "8x7"}

// botanName is what Botan calls it. botan speed takes the longest key that a cipher has.
func botanName(c Cipher) (string, error) {
	cipher := ""
	switch c.Algorithm {
	case "aes", "camellia", "aria":
		cipher = map[string]string{"aes": "AES", "camellia": "Camellia", "aria": "ARIA"}[c.Algorithm] + "-" + strconv.Itoa(c.block())
	case "twofish", "serpent":
		if c.block() != 256 {
			most := 256 * c.Bits / c.block()
			return "", fmt.Errorf("botan speed has no %s: it takes the longest key of %s, which is of %d bits", c.Name, c.Algorithm, most)
		}
		cipher = map[string]string{"twofish": "Twofish", "serpent": "Serpent"}[c.Algorithm]
	case "sm4":
		cipher = "SM4"
	case "3des":
		cipher = "TripleDES"
	case "chacha20":
		return "ChaCha20", nil
	case "chacha20-poly1305":
		return "ChaCha20Poly1305", nil
	case "rsa", "ecdsa":
		return strings.ToUpper(c.Algorithm), nil
	case "ed25519", "x25519":
		return strings.ToUpper(c.Name[:1]) + c.Name[1:], nil
	case "ml-kem", "ml-dsa":
		return strings.ToUpper(c.Algorithm), nil
	default:
		return "", fmt.Errorf("Botan has no %s", c.Name)
	}
	if c.Mode == "cbc" {
		return cipher + "/CBC/NoPadding", nil
	}
	return cipher + "/" + strings.ToUpper(c.Mode), nil
}

// A botanLine is one of what botan speed --format=json prints.
type botanLine struct {
	Algo   string  `json:"algo"`
	Op     string  `json:"op"`
	Events float64 `json:"events"` // octets, where the operation has such
	Nanos  float64 `json:"nanos"`
}

// parseBotan reads what botan speed --format=json says of the cipher.
func parseBotan(c Cipher, stdout, stderr string) (vs []result.Value, err error) {
	at := strings.Index(stdout, "[")
	if at < 0 {
		return nil, fmt.Errorf("botan speed has measured nothing: %s", botanComplaint(stderr))
	}
	// Botan 2 prints its version after the list.
	var lines []botanLine
	if err := json.NewDecoder(strings.NewReader(stdout[at:])).Decode(&lines); err != nil {
		return nil, fmt.Errorf("what botan speed prints is no list of results: %w", err)
	}
	for _, l := range lines {
		metric := botanOperation(c, l.Algo, l.Op)
		if metric == "" {
			continue
		}
		rate := l.Events / l.Nanos * 1e9
		if !(rate > 0) || math.IsInf(rate, 0) {
			return nil, fmt.Errorf("botan speed counts %v in %v ns", l.Events, l.Nanos)
		}
		if slices.ContainsFunc(vs, func(v result.Value) bool { return v.Metric == metric }) {
			return nil, fmt.Errorf("botan speed measured %q of %s twice", l.Op, c.Name)
		}
		vs = append(vs, cryptoValue(metric, rate))
	}
	if vs == nil {
		return nil, fmt.Errorf("botan speed has measured nothing: %s", botanComplaint(stderr))
	}
	return vs, nil
}

// botanComplaint is the first line of what it says.
func botanComplaint(stderr string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
	if line == "" {
		return "it said nothing"
	}
	return strings.ReplaceAll(line, "Unknown algorithm", "unknown algorithm")
}

// botanOperation is the metric of a line; "": none of the cipher's. RSA is measured with
// all sizes of keys, ML-KEM and ML-DSA with all sets of parameters.
func botanOperation(c Cipher, algo, op string) string {
	first, _, _ := strings.Cut(algo, " ") // "RSA-2048 EMSA-PKCS1-v1_5(SHA-256)"
	want := ""
	switch c.Algorithm {
	case "rsa", "ml-kem":
		want = strings.ToUpper(c.Name)
	case "ml-dsa":
		want = "ML-DSA-" + botanSets[c.Variant]
	case "ecdsa":
		want = "ECDSA-" + botanGroups[c.Variant]
	}
	if want != "" && first != want {
		return ""
	}
	switch c.Kind {
	case Encryption:
		return map[string]string{"encrypt": "encrypt_bytes_per_s", "decrypt": "decrypt_bytes_per_s"}[op]
	case Signature:
		// keygen is not taken: RSA's and ECDSA's is a single one
		return map[string]string{"sign": "signs_per_s", "verify": "verifies_per_s"}[op]
	case Agreement:
		return map[string]string{"key agreements": "agreements_per_s"}[op]
	}
	return map[string]string{"keygen": "keygens_per_s", "KEM encrypt": "encapsulations_per_s", "KEM decrypt": "decapsulations_per_s"}[op]
}
