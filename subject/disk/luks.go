// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/subject/internal/program"
)

// A Volume is an open LUKS2 volume: a device on which dm-crypt encrypts. The kernel
// removes it once nobody has it open, and this process has until Close.
//
//	Path /dev/dm-N -> dm-crypt -> the device, from DataOffset on
type Volume struct {
	Path string
	Key  []byte // of the volume, made for it

	held *os.File
}

const (
	cryptsetupProgram = "cryptsetup"
	volumePrefix      = "boxdyno-" // of names of the device mapper
	// volumePhrase opens a volume that holds random octets.
	volumePhrase = "measured, not secret"
	// DataOffset is where a Volume's data begin on its device, in octets; before are
	// LUKS2's header and keys.
	DataOffset = 4 << 20
	// SectorSize is what is encrypted at once.
	SectorSize = 4096
)

// CryptsetupVersion is that of the cryptsetup that is installed: "2.6.1".
func CryptsetupVersion(ctx context.Context) (string, error) {
	if err := host.Has(cryptsetupProgram); err != nil {
		var m *host.Missing
		if errors.As(err, &m) {
			m.Remedy = [][]string{{"apt-get", "install", "-y", "cryptsetup-bin"}}
		}
		return "", err
	}
	out, err := program.Within(ctx, &host.Local{}, program.VersionPatience, "", cryptsetupProgram, "--version")
	f := strings.Fields(string(out))
	if err != nil || len(f) < 2 {
		return "", errors.Join(err, fmt.Errorf("cryptsetup --version says %q", out))
	}
	return f[1], nil
}

// HasMapper says whether the kernel has the device mapper; else it is a *host.Missing.
func HasMapper(ctx context.Context) error {
	misc, err := os.ReadFile("/proc/misc")
	if err == nil && strings.Contains(string(misc), " device-mapper\n") {
		return nil
	}
	if host.Has("modprobe") == nil {
		if _, err := program.Within(ctx, &host.Local{}, program.VersionPatience, "", "modprobe", "dm_crypt"); err == nil {
			return nil
		}
	}
	return &host.Missing{What: "the kernel's device mapper with dm-crypt", Hint: "take a kernel with CONFIG_BLK_DEV_DM and CONFIG_DM_CRYPT, as distributions have it"}
}

// OpenLUKS2 formats the device with a random volume key of keyBits and opens it (root).
// A cipher that the kernel has not, or a key that the cipher has not, is an error that
// says so.
func OpenLUKS2(ctx context.Context, device, cipher string, keyBits int) (_ *Volume, err error) {
	key := make([]byte, keyBits/8)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	dir, err := host.MakeScratch()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	keyFile := dir + "/key"
	if err := os.WriteFile(keyFile, key, 0o600); err != nil {
		return nil, err
	}
	// Deriving the key from the phrase is made cheap: it is not measured. --master-key-file
	// is what later versions call --volume-key-file, and read as well.
	_, err = program.Within(ctx, &host.Local{}, program.CryptsetupPatience, volumePhrase, cryptsetupProgram, "luksFormat", "--batch-mode", "--type", "luks2", "--cipher", cipher, "--key-size", strconv.Itoa(keyBits),
		"--master-key-file", keyFile, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--sector-size", strconv.Itoa(SectorSize),
		"--offset", strconv.Itoa(DataOffset/512), "--luks2-metadata-size", "16k", "--luks2-keyslots-size", "1m", "--key-file", "-", device)
	if err != nil {
		return nil, fmt.Errorf("format %s as LUKS2 with %s and a key of %d bits: %w", device, cipher, keyBits, err)
	}
	name := volumePrefix + hex.EncodeToString(key[:6])
	if _, err = program.Within(ctx, &host.Local{}, program.CryptsetupPatience, volumePhrase, cryptsetupProgram, "open", "--type", "luks2", "--key-file", "-", device, name); err != nil {
		return nil, fmt.Errorf("open the LUKS2 volume with %s: %w", cipher, err)
	}
	v := &Volume{Path: "/dev/mapper/" + name, Key: key}
	defer func() {
		if err != nil {
			_, cerr := program.Within(context.WithoutCancel(ctx), &host.Local{}, program.CryptsetupPatience, "", cryptsetupProgram, "close", name)
			err = errors.Join(err, cerr)
		}
	}()
	if err = appears(v.Path); err != nil {
		return nil, err
	}
	if v.held, err = os.OpenFile(v.Path, os.O_RDWR|unix.O_DIRECT, 0); err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err = unix.Fstat(int(v.held.Fd()), &stat); err != nil {
		return nil, errors.Join(err, v.held.Close())
	}
	// Without udev the name goes at once, and the kernel's own does not.
	v.Path = "/dev/dm-" + strconv.Itoa(int(unix.Minor(uint64(stat.Rdev))))
	if _, err = program.Within(ctx, &host.Local{}, program.CryptsetupPatience, "", cryptsetupProgram, "close", "--deferred", name); err != nil {
		return nil, errors.Join(fmt.Errorf("have the kernel remove %s at its last close: %w", v.Path, err), v.held.Close())
	}
	return v, nil
}

// Close removes the volume, and returns once it is gone.
func (v *Volume) Close() error {
	if v.held == nil {
		return nil
	}
	err := v.held.Close()
	v.held = nil
	for range 250 {
		if _, serr := os.Stat(v.Path); serr != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.Join(err, fmt.Errorf("%s is still in use 5 s after it was closed", v.Path))
}
