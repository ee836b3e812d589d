// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"flag"
	"strings"
	"testing"
)

func TestStorageCheck(t *testing.T) {
	for args, want := range map[string]string{
		"":                                  "",
		"-cipher=aes-cbc -key_size=192":     "",
		"-cipher=adiantum":                  "",
		"-cipher=aes-xts -key_size=384":     "key_size 384: cipher aes-xts has keys of 256, 512 bits",
		"-cipher=rot13":                     "rot13",
		"-cipher=serpent-cbc -key_size=512": "keys of 128, 192, 256 bits",
		"-block=5000":                       "multiple of 4096",
		"-device=disk":                      "disk",
		"-size=1":                           "1",
	} {
		p := newStorage()
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		fs.SetOutput(&strings.Builder{})
		p.Flags(fs)
		err := fs.Parse(strings.Fields(args))
		if err == nil {
			err = p.Check(nil)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", args, err, want)
		}
	}
	for _, c := range storageCiphers {
		p := newStorage().(*Storage)
		p.cipher.Value = c.name
		if spec, bits, err := p.key(); err != nil || spec != c.spec || bits != c.keys[len(c.keys)-1] {
			t.Errorf("%s: %s %d %v", c.name, spec, bits, err)
		}
	}
}
