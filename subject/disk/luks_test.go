// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/subject/internal/program"
)

// A volume on either disk holds what it should, a wrong key is told, and volume and
// disk are gone after Close. It needs root and a kernel with dm-crypt.
func TestLUKS2(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if os.Getenv(holdsZram) != "" { // a process that is killed while it opens a volume
		d, err := NewZram(DataOffset + 1<<20)
		if err == nil {
			var v *Volume
			if v, err = OpenLUKS2(ctx, d.Path, "aes-xts-plain64", 512); err == nil {
				err = v.Close()
			}
		}
		if err == nil {
			_, err = program.Within(ctx, &host.Local{}, program.CryptsetupPatience, volumePhrase, cryptsetupProgram, "open", "--type", "luks2", "--key-file", "-", d.Path, volumePrefix+"killed")
		}
		if err != nil {
			t.Fatal(err)
		}
		holdZram(d)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root for block devices: run it as root")
	}
	_, err := CryptsetupVersion(ctx)
	for _, err := range []error{err, HasMapper(ctx)} {
		var m *host.Missing
		if errors.As(err, &m) {
			t.Skip(m.Error())
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		cipher string
		bits   int
		known  bool
		disk   func(uint64) (*Disk, error)
	}{
		{"aes-xts-plain64", 512, true, NewZram}, {"aes-cbc-essiv:sha256", 256, true, NewLoop},
		{"serpent-xts-plain64", 256, false, NewLoop}, {"xchacha12,aes-adiantum-plain64", 256, false, NewZram},
	} {
		d, err := c.disk(DataOffset + 1<<20)
		var m *host.Missing
		if errors.As(err, &m) {
			t.Log(m)
			continue
		}
		if err != nil {
			t.Fatal(c.cipher, err)
		}
		v, err := OpenLUKS2(ctx, d.Path, c.cipher, c.bits)
		if err != nil {
			t.Fatal(c.cipher, err, d.Close())
		}
		if known, err := v.Prove(d.Path, c.cipher); known != c.known || err != nil {
			t.Errorf("%s: %v %v", c.cipher, known, err)
		}
		if c.known {
			v.Key[0] ^= 1
			if _, err := v.Prove(d.Path, c.cipher); err == nil || !strings.Contains(err.Error(), "another cipher") {
				t.Errorf("%s with another key: %v", c.cipher, err)
			}
		}
		if err := errors.Join(v.Close(), d.Close(), v.Close(), d.Close()); err != nil {
			t.Errorf("%s: %v", c.cipher, err)
		}
		if _, err := os.Stat(v.Path); err == nil {
			t.Errorf("%s: %s is still there", c.cipher, v.Path)
		}
		if size, err := os.ReadFile("/sys/block/" + strings.TrimPrefix(d.Path, "/dev/") + "/size"); err == nil && strings.TrimSpace(string(size)) != "0" {
			t.Errorf("%s: %s still has %s sectors", c.cipher, d.Path, size)
		}
	}
	t.Run("killed", func(t *testing.T) {
		path, stop := zramOf(t, "^TestLUKS2$", "volume")
		if volumes, _ := filepath.Glob("/sys/block/" + filepath.Base(path) + "/holders/dm-*"); len(volumes) != 1 {
			t.Errorf("on %s lie %v", path, volumes)
		}
		stop()
		awaitNoZram(t, path)
	})
	d, err := NewLoop(DataOffset + 1<<20)
	if err != nil {
		t.Skip(err)
	}
	defer d.Close()
	if _, err := OpenLUKS2(ctx, d.Path, "nonesuch-xts-plain64", 512); err == nil || !strings.Contains(err.Error(), "nonesuch-xts-plain64") {
		t.Errorf("a cipher that is not there: %v", err)
	}
}
