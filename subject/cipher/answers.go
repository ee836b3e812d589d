// SPDX-License-Identifier: Apache-2.0

package cipher

import (
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"boxdyno/host"
)

// answerFiles are known answers: symmetric.txt, a text and what ciphers make of it;
// ALGORITHM-cbc-BITS.pem, private keys under the password "boxdyno", encrypted by libgcrypt
// 1.10.1 (PKCS #8 with PBES2); SCHEME.pem, a public key and a signature of answerMessage, or
// a seed, a ciphertext and its secret, made with Go 1.26, ML-DSA with OpenSSL 3.5.7.
//
//go:embed answers
var answerFiles embed.FS

// answerMessage is what the known signatures sign.
const answerMessage = "boxdyno\n"

// A cipherAnswer is what a symmetric cipher makes of a text.
type cipherAnswer struct{ key, iv, plain, secret []byte }

// symmetric is the known answer of a cipher; nil: there is none.
func symmetric(c Cipher) *cipherAnswer { return symmetricAnswers()[c.Name] }

var symmetricAnswers = sync.OnceValue(func() map[string]*cipherAnswer {
	data, err := answerFiles.ReadFile("answers/symmetric.txt")
	if err != nil {
		panic("subject: " + err.Error()) // it is embedded
	}
	all := map[string]*cipherAnswer{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		c, err := Parse(f[0])
		var parts [][]byte
		for _, word := range f[1:] {
			b, wrong := hex.DecodeString(word)
			err = errors.Join(err, wrong)
			parts = append(parts, b)
		}
		if err != nil || len(parts) != 1 && len(parts) != 4 {
			panic(fmt.Sprintf("subject: answers/symmetric.txt: %q: %v", line, err)) // a test reads it
		}
		a := &cipherAnswer{key: testKey(c), iv: testIV(c), plain: testText(), secret: parts[0]}
		if len(parts) == 4 {
			a = &cipherAnswer{parts[0], parts[1], parts[2], parts[3]}
		}
		all[c.Name] = a
	}
	return all
})

// testKey is the key that known answers have.
func testKey(c Cipher) []byte { return ascending(0, c.Bits/8) }

func testIV(c Cipher) []byte {
	switch {
	case c.Algorithm == "chacha20":
		return ascending(4, 12)
	case c.aead():
		return ascending(0xf0, 12)
	case c.Algorithm == "3des":
		return ascending(0xf0, 8)
	}
	return ascending(0xf0, 16)
}

func testText() (b []byte) {
	for i := range 64 {
		b = append(b, byte(3+7*i))
	}
	return b
}

func ascending(first, n int) (b []byte) {
	for i := range n {
		b = append(b, byte(first+i))
	}
	return b
}

// same is an error where a program does not compute what it should.
func same(what string, want, got []byte) error {
	if bytes.Equal(want, got) {
		return nil
	}
	return fmt.Errorf("%s does not compute its known answer: %s came out instead of %s", what, short(got), short(want))
}

func short(b []byte) string {
	if len(b) > 16 {
		return hex.EncodeToString(b[:16]) + "..."
	}
	return "0x" + hex.EncodeToString(b)
}

// answerBlocks are the PEM blocks of a file of known answers; nil: there is no such file.
func answerBlocks(name string) (blocks []*pem.Block) {
	data, err := answerFiles.ReadFile("answers/" + name + ".pem")
	if err != nil {
		return nil
	}
	for {
		b, rest := pem.Decode(data)
		if b == nil {
			return blocks
		}
		blocks, data = append(blocks, b), rest
	}
}

// asymmetricProof says what OpenSSL proves of a scheme.
func asymmetricProof(c Cipher) string {
	switch {
	case c.Name == "x25519":
		return "x25519, RFC 7748"
	case answerBlocks(c.Name) == nil:
		return "none: there is no test vector"
	case c.Kind == Signature:
		return c.Name + ", a known signature"
	}
	return c.Name + ", a known encapsulated secret"
}

// inFiles runs f in a folder that holds files, which goes afterwards.
func inFiles(files map[string][]byte, f func(dir string) error) (err error) {
	dir, err := host.MakeScratch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return f(dir)
}

// The keys of RFC 7748, section 6.1, and the secret that Alice and Bob share.
const (
	x25519Alice  = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
	x25519Bob    = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
	x25519Secret = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
)

// opensslProveAsymmetric has OpenSSL verify a known signature and refuse another one,
// open a known encapsulation, or agree on a known secret.
func opensslProveAsymmetric(ctx context.Context, h *host.Local, c Cipher) error {
	if c.Name == "x25519" {
		return opensslProveX25519(ctx, h)
	}
	blocks := answerBlocks(c.Name)
	if blocks == nil {
		return nil
	}
	key := pem.EncodeToMemory(blocks[0])
	if c.Kind == Encapsulation {
		return inFiles(map[string][]byte{"key": key, "in": blocks[1].Bytes}, func(dir string) error {
			if _, err := h.Run(ctx, "", "openssl", "pkeyutl", "-decap", "-inkey", dir+"/key", "-in", dir+"/in", "-secret", dir+"/out"); err != nil {
				return err
			}
			got, err := os.ReadFile(dir + "/out")
			if err != nil {
				return err
			}
			return same(c.Name, blocks[2].Bytes, got)
		})
	}
	signature := blocks[1].Bytes
	return inFiles(map[string][]byte{"key": key, "in": []byte(answerMessage), "other": []byte("another\n"), "signature": signature}, func(dir string) error {
		verify := func(message string) error {
			argv := []string{"openssl", "pkeyutl", "-verify", "-pubin", "-inkey", dir + "/key", "-sigfile", dir + "/signature", "-rawin", "-in", dir + "/" + message}
			if c.Algorithm == "rsa" || c.Algorithm == "ecdsa" {
				argv = append(argv, "-digest", "sha256")
			}
			_, err := h.Run(ctx, "", argv...)
			return err
		}
		if err := verify("in"); err != nil {
			return fmt.Errorf("%s does not verify a known signature: %w", c.Name, err)
		}
		if verify("other") == nil {
			return fmt.Errorf("%s verifies a signature of another text", c.Name)
		}
		return nil
	})
}

func opensslProveX25519(ctx context.Context, h *host.Local) error {
	private, err := hex.DecodeString(x25519Alice)
	if err != nil {
		return err
	}
	peer, err := hex.DecodeString(x25519Bob)
	if err != nil {
		return err
	}
	want, err := hex.DecodeString(x25519Secret)
	if err != nil {
		return err
	}
	// the PKCS #8 and SubjectPublicKeyInfo that such keys have (RFC 8410)
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: append([]byte{0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20}, private...)})
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: append([]byte{0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 3, 0x21, 0}, peer...)})
	return inFiles(map[string][]byte{"key": key, "peer": public}, func(dir string) error {
		got, err := h.Run(ctx, "", "openssl", "pkeyutl", "-derive", "-inkey", dir+"/key", "-peerkey", dir+"/peer")
		if err != nil {
			return err
		}
		return same("x25519", want, got)
	})
}

// botanModes are those of symmetric ciphers that the command encryption of Botan 2 has,
// beside CBC by way of an encrypted private key.
var botanModes = map[string]string{"aes-xts-256": "aes-128-xts", "aes-xts-512": "aes-256-xts", "aes-gcm-128": "aes-128-gcm", "aes-gcm-192": "aes-192-gcm", "aes-gcm-256": "aes-256-gcm", "chacha20-poly1305": "chacha20poly1305"}

// botanKnown is the cipher of which Botan computes a known answer: c itself, or the one
// that it is made of; "": none. Botan 3 has a command for every mode.
func botanKnown(c Cipher, three bool) string {
	cbc := fmt.Sprintf("%s-cbc-%d", c.Algorithm, c.block())
	switch {
	case c.Kind != Encryption:
		if (c.Algorithm == "rsa" || c.Algorithm == "ecdsa") && answerBlocks(c.Name) != nil {
			return c.Name
		}
		return ""
	case c.Algorithm == "chacha20" && !three:
		return "chacha20-poly1305"
	case botanModes[c.Name] != "" || three && symmetric(c) != nil:
		return c.Name
	case answerBlocks(cbc) != nil:
		return cbc
	}
	return ""
}

// botanThree says whether it is Botan 3 or newer, whose commands are others.
func botanThree(ctx context.Context, h *host.Local) bool {
	out, err := h.Run(ctx, "", "botan", "version")
	return err == nil && !strings.HasPrefix(string(out), "2.")
}

func botanProof(ctx context.Context, h *host.Local, c Cipher) string {
	switch known := botanKnown(c, botanThree(ctx, h)); {
	case known == "":
		return "none: no command of botan computes it for a given key"
	case known != c.Name:
		return known + ", no command of botan computes " + c.Name + " for a given key"
	case c.Kind == Signature:
		return c.Name + ", a known signature"
	default:
		return known
	}
}

func botanProve(ctx context.Context, h *host.Local, c Cipher) error {
	three := botanThree(ctx, h)
	name := botanKnown(c, three)
	if name == "" {
		return nil
	}
	known, err := Parse(name)
	if err != nil {
		return err
	}
	switch {
	case known.Kind == Signature:
		return botanProveSignature(ctx, h, known, three)
	case three:
		return botanProveThree(ctx, h, known)
	case botanModes[name] != "":
		a := symmetric(known)
		argv := []string{"botan", "encryption", "--mode=" + botanModes[name], "--key=" + hex.EncodeToString(a.key), "--iv=" + hex.EncodeToString(a.iv)}
		out, err := h.Run(ctx, string(a.plain), argv...)
		if err != nil {
			return err
		}
		return same(name, a.secret, out)
	}
	data, err := answerFiles.ReadFile("answers/" + name + ".pem")
	if err != nil {
		return err
	}
	return inFiles(map[string][]byte{"key": data}, func(dir string) error {
		out, err := h.Run(ctx, "", "botan", "pkcs8", "--pass-in=boxdyno", "--der-out", dir+"/key")
		if err != nil {
			return err
		}
		return same(name, answerKey(), out)
	})
}

// answerKey is the private key that known answers encrypt: RFC 8032, section 7.1, TEST 1,
// in PKCS #8.
func answerKey() []byte {
	b, err := hex.DecodeString("302e020100300506032b657004220420" + "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
	if err != nil {
		panic("subject: " + err.Error()) // a test decodes it
	}
	return b
}

func botanProveThree(ctx context.Context, h *host.Local, c Cipher) error {
	name, err := botanName(c)
	if err != nil {
		return err
	}
	a := symmetric(c)
	return inFiles(map[string][]byte{"in": a.plain}, func(dir string) error {
		out, err := h.Run(ctx, "", "botan", "cipher", "--cipher="+name, "--key="+hex.EncodeToString(a.key), "--nonce="+hex.EncodeToString(a.iv), dir+"/in")
		if err != nil {
			return err
		}
		return same(c.Name, a.secret, out)
	})
}

func botanProveSignature(ctx context.Context, h *host.Local, c Cipher, three bool) error {
	blocks := answerBlocks(c.Name)
	files := map[string][]byte{
		"key": pem.EncodeToMemory(blocks[0]), "in": []byte(answerMessage), "other": []byte("another\n"),
		"signature": []byte(base64.StdEncoding.EncodeToString(blocks[1].Bytes)),
	}
	return inFiles(files, func(dir string) error {
		option := "--der-format"
		switch {
		case c.Algorithm == "rsa" && three:
			option = "--padding=EMSA3"
		case c.Algorithm == "rsa":
			option = "--emsa=EMSA3"
		}
		for _, m := range []struct {
			file, want string
		}{{"in", "Signature is valid"}, {"other", "Signature is invalid"}} {
			out, err := h.Run(ctx, "", "botan", "verify", option, dir+"/key", dir+"/"+m.file, dir+"/signature")
			if got := strings.TrimSpace(string(out)); got != m.want && (err == nil || m.file == "in") {
				return fmt.Errorf("%s does not tell a known signature from one of another text: botan says %q of the file %s (%v)", c.Name, got, m.file, err)
			}
		}
		return nil
	})
}
