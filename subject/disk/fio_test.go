// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"context"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What fio 3.33 prints, shortened, after a note in words.
const fioSaid = `note: both iodepth >= 1 and synchronous I/O engine are selected
{"fio version":"fio-3.33","jobs":[{"jobname":"boxdyno","error":0,
 "read":{"io_bytes":4096,"bw_bytes":1000,"iops":2.5,"runtime":2000,"clat_ns":{"mean":1500000.0,"percentile":{"99.000000":2500000}}},
 "write":{"io_bytes":0,"bw_bytes":0,"iops":0,"runtime":0,"clat_ns":{"mean":0}}}]}`

func TestParseFio(t *testing.T) {
	e, err := parseFio([]byte(fioSaid), "randread")
	if err != nil || e.Rate != 1000 || e.IOPS != 2.5 || e.Mean != 1.5e-3 || e.P99 != 2.5e-3 || e.Bytes != 4096 || e.Seconds != 2 {
		t.Errorf("%+v %v", e, err)
	}
	for text, want := range map[string]string{
		"fio: bad": "no figures", `{"jobs":[]}`: "0 groups", `{"jobs":[{"error":5}]}`: "error 5", `{"jobs":`: "read its figures",
	} {
		if _, err := parseFio([]byte(text), "read"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
	}
	if _, err := parseFio([]byte(fioSaid), "write"); err == nil || !strings.Contains(err.Error(), "not one octet") {
		t.Errorf("a write that wrote nothing: %v", err)
	}
}

// fio itself, on a file: its options are ones that it has, and it ends.
func TestFioRuns(t *testing.T) {
	if _, err := exec.LookPath("fio"); err != nil {
		t.Skip("needs fio: run apt-get install fio")
	}
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f := Fio{Device: file, Pattern: "write", Block: 65536, Depth: 4, Jobs: 1, Size: 1 << 20, Fill: true}
	e, err := f.Run(context.Background(), time.Minute)
	if err != nil && strings.Contains(err.Error(), "Invalid argument") {
		t.Skip("needs a file system with direct I/O: name a folder of one in TMPDIR")
	}
	if err != nil || e.Bytes != 1<<20 {
		t.Fatalf("%+v %v", e, err)
	}
	data, err := os.ReadFile(file)
	if err != nil || bytes.Equal(data[:4096], make([]byte, 4096)) || bytes.Equal(data[:4096], data[4096:8192]) {
		t.Errorf("fio wrote no random octets: %v", err)
	}
	f.Device, f.Fill, f.For = filepath.Join(t.TempDir(), "disk"), false, time.Second
	if _, err := f.Run(context.Background(), time.Minute); err == nil || !strings.Contains(err.Error(), "fio write on") {
		t.Errorf("a device that is not there: %v", err)
	}
	if _, err := os.Stat(f.Device); err == nil {
		t.Error("fio made a file where there was no device")
	}
}

// IEEE 1619-2007, annex B, vectors 1 and 2.
func TestXTS(t *testing.T) {
	bytesOf := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		k1, k2, plain, want string
		unit                uint64
	}{
		{strings.Repeat("00", 16), strings.Repeat("00", 16), strings.Repeat("00", 32), "917cf69ebd68b2ec9b9fe9a3eadda692cd43d2f59598ed858c02c2652fbf922e", 0},
		{strings.Repeat("11", 16), strings.Repeat("22", 16), strings.Repeat("44", 32), "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0", 0x3333333333},
	} {
		data := bytesOf(c.plain)
		known, err := encryptSector("aes-xts-plain64", bytesOf(c.k1+c.k2), data, c.unit)
		if !known || err != nil || hex.EncodeToString(data) != c.want {
			t.Errorf("unit %#x gives %x %v %v, want %s", c.unit, data, known, err, c.want)
		}
	}
	if known, err := encryptSector("serpent-xts-plain64", make([]byte, 64), make([]byte, 4096), 0); known || err != nil {
		t.Errorf("a cipher that is not here: %v %v", known, err)
	}
}
