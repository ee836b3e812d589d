// SPDX-License-Identifier: Apache-2.0

// Package storage is the procedure that measures an encrypted disk, and the same disk
// without encryption.
package storage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
	"boxdyno/subject/disk"
	"boxdyno/unit"
)

// Spec is the procedure's row.
var Spec = procedure.Spec{
	Name: "storage", Needs: lab.OwnMachine, Lab: lab.Here, Alone: true,
	Deviation: "storage uses a disk in memory or a file, never the box's own disks",
	Quick:     "each pattern of storage runs for 1 s, 3 times, not for 30 s and 10 times",
	Doc:       "an encrypted disk: fio through dm-crypt (LUKS2) on zram or a loop device, and on the same disk without encryption",
	Names:     []string{"device", "cipher", "key_size"}, Metrics: declared, Joules: joules, New: newStorage,
}

// Storage lets fio write to and read from a disk in memory or of a file, once through
// dm-crypt (LUKS2) and once without, in turn.
//
//	disk (zram, loop) -> LUKS2 volume on it -> known answer, a trial
//	each round:  write, read, randwrite, randread: fio on the disk, a trial | fio on the volume, a trial;
//	             the other one first in every second round
//	volume and disk removed
//
// dm-crypt works in the kernel's threads, so that no process tree has its CPU time.
type Storage struct {
	device  param.Choice
	cipher  param.Choice
	keySize param.Count
	size    param.Count // MiB
	block   param.Count // octets
	jobs    param.Count
	depth   param.Count
	preset  param.Choice
}

// storageCiphers are cryptsetup's names, and the sizes of key in bits.
var storageCiphers = []struct {
	name, spec string
	keys       []int
}{
	{"aes-xts", "aes-xts-plain64", []int{256, 512}},
	{"aes-cbc", "aes-cbc-essiv:sha256", []int{128, 192, 256}},
	{"twofish-xts", "twofish-xts-plain64", []int{256, 384, 512}},
	{"twofish-cbc", "twofish-cbc-essiv:sha256", []int{128, 192, 256}},
	{"serpent-xts", "serpent-xts-plain64", []int{256, 384, 512}},
	{"serpent-cbc", "serpent-cbc-essiv:sha256", []int{128, 192, 256}},
	{"camellia-xts", "camellia-xts-plain64", []int{256, 384, 512}},
	{"camellia-cbc", "camellia-cbc-essiv:sha256", []int{128, 192, 256}},
	{"adiantum", "xchacha12,aes-adiantum-plain64", []int{256}},
}

// storagePatterns are fio's, and their figure.
var storagePatterns = []struct {
	name   string
	random bool
	metric string
}{
	{"write", false, "write_octet_rate"}, {"read", false, "read_octet_rate"}, {"randwrite", true, "randwrite_iops"}, {"randread", true, "randread_iops"},
}

const (
	sequentialBlock = 1 << 20
	storagePatience = 60 * time.Second // for a fio that does not end
)

func newStorage() procedure.Procedure {
	var names []string
	for _, c := range storageCiphers {
		names = append(names, c.name)
	}
	return &Storage{
		device: param.NewChoice("zram", []string{"zram", "loop"}), cipher: param.NewChoice("aes-xts", names), keySize: param.NewCount(0, 0, 512),
		size: param.NewCount(64, 8, 1<<16), block: param.NewCount(4096, 4096, 1<<20), jobs: param.NewCount(1, 0, 256), depth: param.NewCount(16, 1, 256), preset: param.NewPreset(),
	}
}

func (p *Storage) Flags(fs *flag.FlagSet) {
	fs.Var(&p.device, "device", "zram (in memory) or loop (a file in $TMPDIR, which is as fast as its disk)")
	fs.Var(&p.cipher, "cipher", "`cipher` of dm-crypt, with its mode: aes-, twofish-, serpent- or camellia-, and xts or cbc; or adiantum")
	fs.Var(&p.keySize, "key_size", "`bits` of its key, which for xts is two keys; 0: the longest that the cipher has")
	fs.Var(&p.size, "size", "`MiB` that are written and read; of zram, that much memory")
	fs.Var(&p.block, "block", "`octets` of a random request; those in sequence are of 1 MiB")
	fs.Var(&p.jobs, "jobs", "`jobs` of fio at once; 0: one for each CPU")
	fs.Var(&p.depth, "depth", "`requests` of a job that are under way at once")
	fs.Var(&p.preset, "preset", "quick or standard: how long, how often")
}

func (p *Storage) Check(bed *lab.Testbed) error {
	if p.block.Value%disk.SectorSize != 0 {
		return fmt.Errorf("block %d: want a multiple of %d octets, which are encrypted at once", p.block.Value, disk.SectorSize)
	}
	_, _, err := p.key()
	return err
}

// key is cryptsetup's name of the cipher, and the size of its key.
func (p *Storage) key() (spec string, bits int, err error) {
	i := slices.IndexFunc(storageCiphers, func(c struct {
		name, spec string
		keys       []int
	}) bool {
		return c.name == p.cipher.Value
	})
	c := storageCiphers[i] // the parameter takes no other
	bits = p.keySize.Value
	if bits == 0 {
		bits = c.keys[len(c.keys)-1]
	}
	if !slices.Contains(c.keys, bits) {
		var sizes []string
		for _, k := range c.keys {
			sizes = append(sizes, strconv.Itoa(k))
		}
		return "", 0, fmt.Errorf("key_size %d: cipher %s has keys of %s bits", bits, c.name, strings.Join(sizes, ", "))
	}
	return c.spec, bits, nil
}

func (p *Storage) each() time.Duration {
	if p.preset.Value == "standard" {
		return 30 * time.Second
	}
	return time.Second
}

func (p *Storage) Estimate() (int, time.Duration) {
	n := param.Rounds(p.preset.Value) * len(storagePatterns) * 2
	return n + 1, time.Duration(n)*(p.each()+500*time.Millisecond) + 5*time.Second
}

func (p *Storage) Run(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
	spec, bits, err := p.key()
	if err != nil {
		return o, err
	}
	cfg, err := storageNeeds(ctx)
	if err != nil {
		return o, err
	}
	size := uint64(p.size.Value) << 20
	bare, err := p.bare(size + disk.DataOffset)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, bare.Close()) }()
	volume, err := disk.OpenLUKS2(ctx, bare.Path, spec, bits)
	if err != nil {
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
		o.Status, o.Reason = result.Failed, procedure.Sentence(err)
		return o, nil
	}
	defer func() { err = errors.Join(volume.Close(), err) }() // before the disk
	cfg = append(cfg, result.Pair{Key: "cipher_spec", Value: spec}, result.Pair{Key: "key_bits", Value: strconv.Itoa(bits)})
	rec, err := env.Trial(ctx, append(slices.Clone(cfg), result.Pair{Key: "trial", Value: "known-answer"}), func(context.Context) (o procedure.Outcome, err error) {
		known, err := volume.Prove(bare.Path, spec)
		o.Status = result.Passed
		if err != nil {
			o.Status, o.Reason = result.Failed, procedure.Sentence(err)
		}
		o.Values = []result.Value{declared.Value("storage_known_answer", map[bool]float64{true: 1}[known])}
		return o, nil
	})
	if err != nil {
		return o, err
	}
	if rec.Status != result.Passed {
		o.Status, o.Reason = rec.Status, rec.Reason
		return o, nil
	}
	if err := (&disk.Disk{Path: volume.Path}).Fill(ctx, size, env.Bed.CPUs); err != nil {
		return o, err
	}
	return p.measure(ctx, env, cfg, rec.Values, bare.Path, volume.Path)
}

// storageNeeds says what is missing, and which versions are here.
func storageNeeds(ctx context.Context) (cfg []result.Pair, err error) {
	if os.Geteuid() != 0 {
		return nil, &host.Missing{What: "root's privileges, which block devices need", Hint: "run it with sudo"}
	}
	fio, ferr := disk.FioVersion(ctx)
	setup, serr := disk.CryptsetupVersion(ctx)
	for _, err := range []error{ferr, serr, disk.HasMapper(ctx)} {
		if err != nil {
			return nil, err
		}
	}
	return []result.Pair{{Key: "fio", Value: fio}, {Key: "cryptsetup", Value: setup}}, nil
}

func (p *Storage) bare(size uint64) (*disk.Disk, error) {
	if p.device.Value == "loop" {
		return disk.NewLoop(size)
	}
	// Random octets do not compress: zram takes as much memory as they are, and a little.
	if have := (&host.Local{}).MemoryAvailable(); have < size+size/8+32<<20 {
		return nil, &host.Missing{What: fmt.Sprintf("memory for a zram disk of %sB: %sB is available", unit.SI(float64(size)), unit.SI(float64(have))), Hint: "give a smaller --set size, or --set device=loop"}
	}
	return disk.NewZram(size)
}

// A storageSide is where fio's octets go: on the disk itself, or through the volume.
type storageSide struct {
	name, path string
	offset     uint64
}

// measure is the rounds.
func (p *Storage) measure(ctx context.Context, env *procedure.Env, cfg []result.Pair, proven []result.Value, bare, volume string) (o procedure.Outcome, err error) {
	all := map[string][]float64{}
	for n := range param.Rounds(p.preset.Value) {
		for _, pattern := range storagePatterns {
			sides := []storageSide{{"plain", bare, disk.DataOffset}, {"luks2", volume, 0}}
			if n%2 == 1 { // a drift of the machine is on both
				slices.Reverse(sides)
			}
			for _, on := range sides {
				f := disk.Fio{Device: on.path, Pattern: pattern.name, Block: sequentialBlock, Depth: p.depth.Value, Jobs: p.jobs.Value,
					Offset: on.offset, Size: uint64(p.size.Value) << 20, For: p.each(), CPUs: env.Bed.CPUs}
				if pattern.random {
					f.Block = p.block.Value
				}
				if f.Jobs == 0 {
					f.Jobs = len(env.Bed.CPUs)
				}
				id := append(slices.Clone(cfg), result.Pair{Key: "trial", Value: on.name}, result.Pair{Key: "pattern", Value: pattern.name}, result.Pair{Key: "n", Value: strconv.Itoa(n)})
				rec, err := env.Trial(ctx, id, func(ctx context.Context) (procedure.Outcome, error) {
					return storageTrial(ctx, env, f, on.name+"_"+pattern.metric, pattern.random)
				})
				if err != nil {
					return o, err
				}
				if rec.Status == result.Failed {
					o.Status, o.Reason = rec.Status, rec.Reason
					return o, nil
				}
				for _, v := range rec.Values {
					all[v.Metric] = append(all[v.Metric], v.Value)
				}
			}
		}
	}
	o.Status, o.Values = result.Passed, proven
	for _, m := range declared {
		if vs := all[m.Name]; len(vs) > 0 {
			o.Values = append(o.Values, declared.Spread(m.Name, vs))
		}
	}
	for _, name := range []string{"write", "read"} {
		if v := all["luks2_"+name+"_octet_rate"]; len(v) > 0 {
			o.Values = append(o.Values, declared.Value("luks2_"+name+"_bps", 8*declared.Spread("luks2_"+name+"_octet_rate", v).Value))
		}
	}
	for _, pattern := range storagePatterns {
		plain, crypted := all["plain_"+pattern.metric], all["luks2_"+pattern.metric]
		if len(plain) > 0 && len(crypted) > 0 {
			o.Values = append(o.Values, declared.Value("luks2_"+pattern.name+"_share", declared.Spread("luks2_"+pattern.metric, crypted).Value/declared.Spread("plain_"+pattern.metric, plain).Value))
		}
	}
	return o, nil
}

func storageTrial(ctx context.Context, env *procedure.Env, f disk.Fio, metric string, random bool) (o procedure.Outcome, err error) {
	if err := env.Await(ctx); err != nil {
		return o, err
	}
	begin := unit.Now()
	end, err := f.Run(ctx, storagePatience)
	if err != nil {
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
		o.Status, o.Reason = result.Failed, procedure.Sentence(err)
		return o, nil
	}
	o.Status = result.Passed
	o.Phases = []result.Phase{{Name: "fio", Begin: begin, End: unit.Now()}}
	o.Usage = []result.Usage{end.Usage}
	if !random {
		o.Values = []result.Value{declared.Value(metric, end.Rate)}
		return o, nil
	}
	o.Values = []result.Value{declared.Value(metric, end.IOPS)}
	if end.P99 > 0 {
		o.Values = append(o.Values, declared.Value(strings.TrimSuffix(metric, "iops")+"p99_s", end.P99))
	}
	return o, nil
}

var declared = func() (ms metrics.List) {
	ms = []result.Metric{{Name: "storage_known_answer", Unit: "1", Help: "1: boxdyno computed the answer from text and key; 0: the text was encrypted and read back, because boxdyno cannot compute this cipher"}}
	disks := []struct{ name, words, label string }{{"luks2", "the disk through dm-crypt (LUKS2)", "encrypted"}, {"plain", "the disk without encryption", "without"}}
	for _, p := range []struct{ name, figure, words, label, unit string }{
		{"write", "octet_rate", "octets a second written to", "written in sequence", "B/s"},
		{"read", "octet_rate", "octets a second read from", "read in sequence", "B/s"},
		{"randwrite", "iops", "requests a second at random places, written to", "written at random places", "1/s"},
		{"randread", "iops", "requests a second at random places, read from", "read at random places", "1/s"},
	} {
		var pattern []result.Metric
		for _, on := range disks {
			m := result.Metric{Name: on.name + "_" + p.name + "_" + p.figure, Unit: unit.Symbol(p.unit), Better: 1, Help: p.words + " " + on.words, Label: on.label}
			if on.name == "luks2" {
				m.Interval, m.Heads = "range", p.figure == "octet_rate"
			}
			pattern = append(pattern, m)
			if p.figure == "iops" {
				pattern = append(pattern, result.Metric{Name: on.name + "_" + p.name + "_p99_s", Unit: "s", Better: -1, Help: "time from submission to completion that 99 % of them did not exceed", Label: "99 % in"})
			}
		}
		pattern = append(pattern, result.Metric{Name: "luks2_" + p.name + "_share", Unit: "1", Better: 1, Help: "of the figure without encryption that remains with it, pattern " + p.name + " of fio", Label: "share", Share: true})
		if p.figure == "octet_rate" {
			pattern = append(pattern, result.Metric{Name: "luks2_" + p.name + "_bps", Unit: "bit/s", Better: 1, Help: "luks2_" + p.name + "_octet_rate in bits, as a link is rated"})
		}
		ms = append(ms, metrics.Grouped("An encrypted disk, "+p.label+": fio through dm-crypt (LUKS2), and without", pattern)...)
	}
	return ms
}()

// joules are what octets cost.
var joules = []procedure.Joule{
	procedure.Worked("luks2_write_octet_rate", "encrypted MiB", 1<<20, "while it was written"),
	procedure.Worked("luks2_read_octet_rate", "decrypted MiB", 1<<20, "while it was read"),
	procedure.Worked("plain_write_octet_rate", "MiB", 1<<20, "written without encryption"),
	procedure.Worked("plain_read_octet_rate", "MiB", 1<<20, "read without encryption"),
}
