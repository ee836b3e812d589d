// SPDX-License-Identifier: Apache-2.0

package cipher

import (
	"bytes"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/mlkem"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"boxdyno/subject/disk"
)

// The known answers are those of Go's own ciphers, too.
func TestSymmetricAnswers(t *testing.T) {
	all := symmetricAnswers()
	if len(all) < 40 {
		t.Fatalf("%d known answers", len(all))
	}
	seen := map[string]int{}
	for name, a := range all {
		c, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.key) != c.Bits/8 || len(a.plain) > len(a.secret) {
			t.Errorf("%s: a key of %d octets, %d octets become %d", name, len(a.key), len(a.plain), len(a.secret))
		}
		var got []byte
		switch {
		case c.Algorithm == "aes" && c.Mode == "xts": // IEEE 1619
			data, err := aes.NewCipher(a.key[:len(a.key)/2])
			if err != nil {
				t.Fatal(err)
			}
			tweaks, err := aes.NewCipher(a.key[len(a.key)/2:])
			if err != nil {
				t.Fatal(err)
			}
			got = slices.Clone(a.plain)
			disk.XTS(data, tweaks, [16]byte(a.iv), got)
		case c.Algorithm == "aes" || c.Algorithm == "3des":
			block, err := aes.NewCipher(a.key)
			if c.Algorithm == "3des" {
				block, err = des.NewTripleDESCipher(a.key)
			}
			if err != nil {
				t.Fatal(err)
			}
			got = make([]byte, len(a.plain))
			switch c.Mode {
			case "cbc":
				cipher.NewCBCEncrypter(block, a.iv).CryptBlocks(got, a.plain)
			case "ctr":
				cipher.NewCTR(block, a.iv).XORKeyStream(got, a.plain)
			case "gcm":
				g, err := cipher.NewGCM(block)
				if err != nil {
					t.Fatal(err)
				}
				got = g.Seal(nil, a.iv, a.plain, nil)
			}
		default:
			continue
		}
		seen[c.Mode]++
		if err := same(name, got, a.secret); err != nil {
			t.Error(err)
		}
	}
	if seen["cbc"] != 4 || seen["ctr"] != 3 || seen["gcm"] != 3 || seen["xts"] != 3 {
		t.Errorf("compared were %v", seen)
	}
	for _, name := range []string{"aes", "twofish", "serpent", "camellia"} { // those that are measured in xts have its own answer
		for _, bits := range []string{"256", "512"} {
			if all[name+"-xts-"+bits] == nil {
				t.Errorf("no answer of %s-xts-%s", name, bits)
			}
		}
	}
}

// The known signatures and encapsulations hold by Go's own implementations.
func TestAsymmetricAnswers(t *testing.T) {
	digest := sha256.Sum256([]byte(answerMessage))
	for _, c := range wholeCiphers {
		blocks := answerBlocks(c.Name)
		switch {
		case c.Kind == Encryption || c.Name == "x25519" || c.Name == "ml-kem-512":
			if blocks != nil {
				t.Errorf("%s has a file that nobody reads", c.Name)
			}
		case c.Algorithm == "ml-kem":
			seed := blocks[0].Bytes[len(blocks[0].Bytes)-64:]
			var secret []byte
			if c.Variant == "768" {
				k, err := mlkem.NewDecapsulationKey768(seed)
				if err != nil {
					t.Fatal(err)
				}
				secret, _ = k.Decapsulate(blocks[1].Bytes)
			} else {
				k, err := mlkem.NewDecapsulationKey1024(seed)
				if err != nil {
					t.Fatal(err)
				}
				secret, _ = k.Decapsulate(blocks[1].Bytes)
			}
			if !bytes.Equal(secret, blocks[2].Bytes) {
				t.Errorf("%s: another secret", c.Name)
			}
		case c.Algorithm == "ml-dsa": // Go has none yet
			if len(blocks) != 2 || len(blocks[1].Bytes) < 2420 {
				t.Errorf("%s: %d blocks", c.Name, len(blocks))
			}
		default:
			key, err := x509.ParsePKIXPublicKey(blocks[0].Bytes)
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			ok := false
			switch key := key.(type) {
			case *rsa.PublicKey:
				ok = rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], blocks[1].Bytes) == nil
			case *ecdsa.PublicKey:
				ok = ecdsa.VerifyASN1(key, digest[:], blocks[1].Bytes)
			case ed25519.PublicKey:
				ok = ed25519.Verify(key, []byte(answerMessage), blocks[1].Bytes)
			}
			if !ok {
				t.Errorf("%s: the signature does not hold", c.Name)
			}
		}
	}
	decode := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	alice, err := ecdh.X25519().NewPrivateKey(decode(x25519Alice))
	if err != nil {
		t.Fatal(err)
	}
	bob, err := ecdh.X25519().NewPublicKey(decode(x25519Bob))
	if err != nil {
		t.Fatal(err)
	}
	if secret, err := alice.ECDH(bob); err != nil || !bytes.Equal(secret, decode(x25519Secret)) {
		t.Errorf("x25519: %x, %v", secret, err)
	}
	if k, err := x509.ParsePKCS8PrivateKey(answerKey()); err != nil || !strings.HasPrefix(hex.EncodeToString(k.(ed25519.PrivateKey)), "9d61b19deffd5a60") {
		t.Error(err)
	}
}
