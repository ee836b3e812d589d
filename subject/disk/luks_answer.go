// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// answerSectors is how many sectors are looked at.
const answerSectors = 16

// Prove writes a known text through the volume, and compares what then lies on the
// device with what this program itself computes of text and key (known is true) or,
// for a cipher that it cannot compute, sees that it is not the text; and that the
// volume gives the text back. The cipher is cryptsetup's name of it.
func (v *Volume) Prove(device, name string) (known bool, err error) {
	text := aligned(answerSectors * SectorSize)
	for i := range text {
		text[i] = byte(i) ^ byte(i>>8)
	}
	if _, err := v.held.WriteAt(text, 0); err != nil {
		return false, fmt.Errorf("write to the volume: %w", err)
	}
	back, raw := aligned(len(text)), aligned(len(text))
	if _, err := v.held.ReadAt(back, 0); err != nil {
		return false, fmt.Errorf("read from the volume: %w", err)
	}
	if !bytes.Equal(text, back) {
		return false, errors.New("the volume does not give back what was written")
	}
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if _, err := f.ReadAt(raw, DataOffset); err != nil {
		return false, fmt.Errorf("read what lies on %s: %w", device, err)
	}
	if bytes.Equal(raw, text) {
		return false, fmt.Errorf("what lies on %s is not encrypted", device)
	}
	want := bytes.Clone(text)
	for i := range answerSectors {
		known, err = encryptSector(name, v.Key, want[i*SectorSize:][:SectorSize], uint64(i*SectorSize/512))
		if err != nil || !known {
			return false, err
		}
	}
	if !bytes.Equal(raw, want) {
		return true, fmt.Errorf("what lies on %s is not what %s makes of the text: the kernel computes another cipher", device, name)
	}
	return true, nil
}

// aligned is memory that direct I/O takes.
func aligned(n int) []byte {
	b := make([]byte, n+SectorSize)
	skip := -uintptr(unsafe.Pointer(&b[0])) & (SectorSize - 1)
	return b[skip:][:n]
}

// encryptSector encrypts data in place as dm-crypt does the sector whose number is
// counted in units of 512 octets; known is false for what this program cannot compute.
func encryptSector(name string, key, data []byte, sector uint64) (known bool, err error) {
	var iv [16]byte
	binary.LittleEndian.PutUint64(iv[:], sector)
	switch name {
	case "aes-xts-plain64":
		half := len(key) / 2
		k1, err1 := aes.NewCipher(key[:half])
		k2, err2 := aes.NewCipher(key[half:])
		if err := errors.Join(err1, err2); err != nil {
			return false, err
		}
		XTS(k1, k2, iv, data)
	case "aes-cbc-plain64", "aes-cbc-essiv:sha256":
		k, err := aes.NewCipher(key)
		if err != nil {
			return false, err
		}
		if name == "aes-cbc-essiv:sha256" {
			sum := sha256.Sum256(key)
			salt, err := aes.NewCipher(sum[:])
			if err != nil {
				return false, err
			}
			salt.Encrypt(iv[:], iv[:])
		}
		cipher.NewCBCEncrypter(k, iv[:]).CryptBlocks(data, data)
	default:
		return false, nil
	}
	return true, nil
}

// XTS is IEEE 1619's, for data of whole blocks.
func XTS(k1, k2 cipher.Block, tweak [16]byte, data []byte) {
	k2.Encrypt(tweak[:], tweak[:])
	for ; len(data) >= 16; data = data[16:] {
		block := data[:16]
		for i := range block {
			block[i] ^= tweak[i]
		}
		k1.Encrypt(block, block)
		carry := byte(0)
		for i := range block {
			block[i] ^= tweak[i]
			carry, tweak[i] = tweak[i]>>7, tweak[i]<<1|carry
		}
		tweak[0] ^= 0x87 & -carry
	}
}
