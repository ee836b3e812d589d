// SPDX-License-Identifier: Apache-2.0

package cipher

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
)

// opensslPath is openssl speed. By EVP it has every cipher that the library has.
var opensslPath = cryptoPath{
	name: "openssl", doc: "OpenSSL's own measurement (openssl speed), of its library on one CPU",
	needs: opensslNeeds,
	lacks: func(c Cipher) error {
		_, err := opensslName(c)
		return err
	},
	apart: true, block: 16384,
	identify: func(ctx context.Context, h *host.Local, _ Cipher) ([]result.Pair, error) {
		out, err := h.Run(ctx, "", "openssl", "version")
		if err != nil {
			return nil, err
		}
		driver, _, _ := strings.Cut(strings.TrimSpace(string(out)), " (") // the library's version follows
		return identity(h, driver)
	},
	proof: func(_ context.Context, _ *host.Local, c Cipher) string { return opensslProof(c) },
	prove: opensslProve,
	argv: func(s *Crypto) ([]string, error) {
		name, err := opensslName(s.Cipher)
		argv := []string{"openssl", "speed", "-mr", "-elapsed", "-seconds", strconv.Itoa(wholeSeconds(s.For))}
		if s.Cipher.Kind != Encryption {
			return append(argv, name), err
		}
		argv = append(argv, "-bytes", strconv.Itoa(s.Octets()))
		if s.Direction == Decrypt {
			argv = append(argv, "-decrypt")
		}
		return append(argv, "-evp", name), err
	},
	read: func(s *Crypto, w subject.Worked) ([]result.Value, error) {
		if s.Cipher.Kind != Encryption {
			return parseOpenSSLAsymmetric(s.Cipher, w.Stderr)
		}
		rate, err := parseOpenSSLCipher(w.Stderr)
		if err != nil {
			return nil, err
		}
		return s.rate(rate), nil
	},
}

// opensslNeeds: ML-KEM and ML-DSA came with 3.5.
func opensslNeeds(ctx context.Context, h *host.Local, c Cipher) error {
	if err := host.Has("openssl"); err != nil || !c.lattice() {
		return err
	}
	name, err := opensslName(c)
	if err != nil {
		return err
	}
	if _, err := h.Run(ctx, "", "openssl", "genpkey", "-algorithm", name, "-out", "/dev/null"); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &host.Missing{What: name + " in this machine's OpenSSL, which makes no key of it", Hint: "install OpenSSL 3.5 or newer: Debian 13's package openssl is"}
	}
	return nil
}

func wholeSeconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// opensslName is what OpenSSL calls it.
func opensslName(c Cipher) (string, error) {
	switch c.Algorithm {
	case "aes", "camellia", "aria":
		if c.Algorithm != "aes" && (c.Mode == "xts" || c.Mode == "ocb") || c.Algorithm == "camellia" && c.Mode != "cbc" && c.Mode != "ctr" || c.Name == "aes-xts-384" {
			break
		}
		return fmt.Sprintf("%s-%d-%s", c.Algorithm, c.block(), c.Mode), nil
	case "sm4":
		if c.Mode == "ocb" {
			break
		}
		return "sm4-" + c.Mode, nil
	case "3des":
		return "des-ede3-cbc", nil
	case "chacha20", "chacha20-poly1305", "ed25519":
		return c.Name, nil
	case "rsa":
		return "rsa" + c.Variant, nil
	case "ecdsa":
		return "ecdsa" + c.Variant, nil
	case "x25519":
		return "ecdhx25519", nil
	case "ml-kem", "ml-dsa":
		return strings.ToUpper(c.Name), nil
	}
	return "", fmt.Errorf("OpenSSL has no %s", c.Name)
}

// parseOpenSSLCipher reads octets a second of what openssl speed -mr -evp says:
//
//	+DT:AES-128-CBC:1:16384
//	+R:99953:AES-128-CBC:0.990000
func parseOpenSSLCipher(stderr string) (rate float64, err error) {
	size := 0.0
	for line := range strings.Lines(stderr) {
		f := strings.Split(strings.TrimSpace(line), ":")
		switch {
		case f[0] == "+DT" && len(f) == 4:
			if size, err = strconv.ParseFloat(f[3], 64); err != nil || !(size > 0) {
				return 0, fmt.Errorf("openssl speed says %q, which has no size of a block", strings.TrimSpace(line))
			}
		case f[0] == "+R" && len(f) == 4:
			n, seconds, err := countAndTime(f[1], f[3])
			if err != nil {
				return 0, err
			}
			rate = n * size / seconds
		}
	}
	if !(rate > 0) || math.IsInf(rate, 0) {
		return 0, errors.New(opensslComplaint(stderr))
	}
	return rate, nil
}

// opensslComplaint is a sentence on a measurement that did not come.
func opensslComplaint(stderr string) string {
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "unknown cipher") || strings.Contains(line, "Unknown algorithm") || strings.HasPrefix(line, "Couldn't") {
			return "openssl speed has measured nothing: " + line
		}
	}
	return "openssl speed has measured nothing"
}

func countAndTime(count, seconds string) (n, s float64, err error) {
	n, err = strconv.ParseFloat(count, 64)
	if err == nil {
		s, err = strconv.ParseFloat(seconds, 64)
	}
	if err != nil || !(n > 0) || !(s > 0) || math.IsInf(n, 0) || math.IsInf(s, 0) {
		return 0, 0, fmt.Errorf("openssl speed counts %q in %q s", count, seconds)
	}
	return n, s, nil
}

// parseOpenSSLAsymmetric reads what openssl speed -mr says of a scheme. The numbers of
// the lines of results differ by version, so each goes by the line before it:
//
//	+DTP:2048:private:rsa:1        (OpenSSL 3.5: private:rsa sign)
//	+R1:3224:2048:1.00
func parseOpenSSLAsymmetric(c Cipher, stderr string) (vs []result.Value, err error) {
	var metric string
	for line := range strings.Lines(stderr) {
		f := strings.Split(strings.TrimSpace(line), ":")
		switch {
		case f[0] == "+DTP" && len(f) == 5:
			metric = opensslOperation(c, f[1], f[2], f[3])
		case f[0] == "+DTP" && len(f) == 4:
			metric = opensslOperation(c, f[1], f[2], f[1])
		case strings.HasPrefix(f[0], "+R") && metric != "" && len(f) >= 4:
			n, seconds, err := countAndTime(f[1], f[len(f)-1])
			if err != nil {
				return nil, err
			}
			vs, metric = append(vs, cryptoValue(metric, n/seconds)), ""
		}
	}
	if vs == nil {
		return nil, errors.New(opensslComplaint(stderr))
	}
	return vs, nil
}

// opensslOperation is the metric of a line +DTP; "": none of the cipher's. OpenSSL 3.5
// measures RSA as a key encapsulation, too.
func opensslOperation(c Cipher, bits, op, scheme string) string {
	scheme = strings.ToLower(scheme)
	switch c.Kind {
	case Agreement:
		if scheme == "ecdh" && bits == "253" {
			return "agreements_per_s"
		}
	case Encapsulation:
		if scheme == c.Name {
			return map[string]string{"keygen": "keygens_per_s", "encaps": "encapsulations_per_s", "decaps": "decapsulations_per_s"}[op]
		}
	case Signature:
		switch {
		case c.Algorithm == "rsa" && bits == c.Variant:
			return map[string]string{"private rsa": "signs_per_s", "private rsa sign": "signs_per_s", "public rsa": "verifies_per_s", "public rsa verify": "verifies_per_s"}[op+" "+scheme]
		case c.Algorithm == scheme || c.Name == scheme:
			return map[string]string{"keygen": "keygens_per_s", "sign": "signs_per_s", "signs": "signs_per_s", "verify": "verifies_per_s"}[op]
		}
	}
	return ""
}

// opensslProof: openssl enc has no xts and no authenticated modes, so there the block
// cipher answers in cbc.
func opensslProof(c Cipher) string {
	switch {
	case c.Kind != Encryption:
		return asymmetricProof(c)
	case c.Name == "chacha20-poly1305":
		return "chacha20, the command openssl enc has no more of it"
	case symmetric(c) == nil || c.aead() || c.Mode == "xts":
		return fmt.Sprintf("%s-cbc-%d, the command openssl enc has no %s", c.Algorithm, c.block(), c.Mode)
	}
	return c.Name
}

func opensslProve(ctx context.Context, h *host.Local, c Cipher) error {
	if c.Kind != Encryption {
		return opensslProveAsymmetric(ctx, h, c)
	}
	name, _, _ := strings.Cut(opensslProof(c), ",")
	known, err := Parse(name)
	if err != nil {
		return err
	}
	a := symmetric(known)
	if a == nil {
		return fmt.Errorf("no known answer of %s", known.Name)
	}
	arg, err := opensslName(known)
	if err != nil {
		return err
	}
	iv := a.iv
	if known.Name == "chacha20" { // OpenSSL has the counter before the nonce
		iv = append(make([]byte, 4), iv...)
	}
	for _, d := range []struct {
		option   string
		in, want []byte
	}{{"-e", a.plain, a.secret}, {"-d", a.secret, a.plain}} {
		out, err := h.Run(ctx, string(d.in), "openssl", "enc", d.option, "-"+arg, "-K", hex.EncodeToString(a.key), "-iv", hex.EncodeToString(iv), "-nopad")
		if err != nil {
			return err
		}
		if err := same(known.Name, d.want, out); err != nil {
			return err
		}
	}
	return nil
}
