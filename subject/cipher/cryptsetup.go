// SPDX-License-Identifier: Apache-2.0

package cipher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
)

// cryptsetupPath is cryptsetup benchmark: the kernel's ciphers, through AF_ALG, in
// requests of 64 KiB, one after the other.
var cryptsetupPath = cryptoPath{
	name: "cryptsetup", doc: "cryptsetup's own measurement (cryptsetup benchmark) of the kernel's ciphers",
	needs: func(ctx context.Context, h *host.Local, c Cipher) error {
		if err := host.Has("cryptsetup"); err != nil {
			return err
		}
		return afAlgPath.needs(ctx, h, c)
	},
	lacks: func(c Cipher) error {
		_, err := cryptsetupName(c)
		return err
	},
	block: 65536, fixed: true,
	identify: func(ctx context.Context, h *host.Local, c Cipher) ([]result.Pair, error) {
		out, err := h.Run(ctx, "", "cryptsetup", "--version")
		if err != nil {
			return nil, err
		}
		pairs, err := afAlgIdentify(ctx, h, c)
		if f := strings.Fields(string(out)); err == nil && len(f) > 1 {
			pairs = append(pairs, result.Pair{Key: "cryptsetup", Value: f[1]})
		}
		return pairs, err
	},
	proof: afAlgPath.proof, // it measures the kernel's cipher
	prove: afAlgPath.prove,
	argv: func(s *Crypto) ([]string, error) {
		name, err := cryptsetupName(s.Cipher)
		return []string{"cryptsetup", "benchmark", "--cipher", name, "--key-size", strconv.Itoa(s.Cipher.Bits)}, err
	},
	read: func(s *Crypto, w subject.Worked) ([]result.Value, error) {
		name, err := cryptsetupName(s.Cipher)
		if err != nil {
			return nil, err
		}
		return parseCryptsetup(name, s.Cipher.Bits, w.Stdout, w.Stderr)
	},
}

// cryptsetupName is what cryptsetup calls it.
func cryptsetupName(c Cipher) (string, error) {
	switch {
	case c.Name == "adiantum":
		return "xchacha12,aes-adiantum", nil
	case c.Kind == Encryption && (c.Mode == "cbc" || c.Mode == "xts") && c.Algorithm == "3des":
		return "des3_ede-cbc", nil
	case c.Kind == Encryption && (c.Mode == "cbc" || c.Mode == "xts"):
		return c.Algorithm + "-" + c.Mode, nil
	}
	return "", fmt.Errorf("cryptsetup benchmark has no %s: it has modes cbc and xts, and adiantum", c.Name)
}

// parseCryptsetup reads the row of a cipher in what cryptsetup benchmark prints:
//
//	#     Algorithm |       Key |      Encryption |      Decryption
//	        aes-cbc        128b        47.3 MiB/s        57.6 MiB/s
func parseCryptsetup(name string, bits int, stdout, stderr string) ([]result.Value, error) {
	for line := range strings.Lines(stdout) {
		f := strings.Fields(line)
		if len(f) != 6 || f[0] != name || f[1] != strconv.Itoa(bits)+"b" || f[3] != "MiB/s" || f[5] != "MiB/s" {
			continue
		}
		var vs []result.Value
		for i, metric := range []string{"encrypt_bytes_per_s", "decrypt_bytes_per_s"} {
			v, err := strconv.ParseFloat(f[2+2*i], 64)
			if err != nil || !(v > 0) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("cryptsetup benchmark says %q", strings.TrimSpace(line))
			}
			vs = append(vs, cryptoValue(metric, v*(1<<20)))
		}
		return vs, nil
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n"); line != "" {
		return nil, errors.New("cryptsetup benchmark has measured nothing: " + line)
	}
	return nil, fmt.Errorf("cryptsetup benchmark prints no row of %s with %d bits", name, bits)
}
