// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject/internal/program"
)

// A Fio is one job of fio on a block device, past the page cache. It writes to the
// device, whatever is on it.
type Fio struct {
	Device  string
	Pattern string // read, write, randread or randwrite, as fio has them
	Block   int    // octets of a request
	Depth   int    // requests of a job that are under way at once
	Jobs    int
	Offset  uint64 // octets at the device's begin that are left alone
	Size    uint64 // octets after that
	For     time.Duration
	Fill    bool // Size is written once, and For is without effect
	CPUs    []int
}

// A FioEnd is what fio said.
type FioEnd struct {
	Rate    float64 // octets a second, all jobs together
	IOPS    float64 // requests a second
	Mean    float64 // seconds from a request's submission to its completion
	P99     float64 // of the same; 0: not told
	Bytes   uint64
	Seconds float64 // that it ran
	Usage   result.Usage
}

const fioProgram = "fio"

// FioVersion is that of the fio that is installed: "fio-3.33". Its error may be a
// *host.Missing.
func FioVersion(ctx context.Context) (string, error) {
	out, err := program.Within(ctx, &host.Local{}, program.VersionPatience, "", fioProgram, "--version")
	return strings.TrimSpace(string(out)), err
}

func (f Fio) argv() []string {
	argv := []string{
		fioProgram, "--name=boxdyno", "--filename=" + f.Device, "--rw=" + f.Pattern, "--bs=" + strconv.Itoa(f.Block),
		"--offset=" + strconv.FormatUint(f.Offset, 10), "--size=" + strconv.FormatUint(f.Size, 10),
		"--allow_file_create=0", "--direct=1", "--ioengine=libaio", "--iodepth=" + strconv.Itoa(f.Depth), "--numjobs=" + strconv.Itoa(max(f.Jobs, 1)), "--thread",
		"--group_reporting", "--output-format=json", "--norandommap", "--randrepeat=1", // what it writes is random by itself
	}
	if !f.Fill {
		argv = append(argv, "--time_based", fmt.Sprintf("--runtime=%dms", f.For.Milliseconds()))
	}
	return argv
}

// Run is the job from its start to its end. A fio that does not end within patience
// after its time is killed, and is an error.
func (f Fio) Run(ctx context.Context, patience time.Duration) (end FioEnd, err error) {
	if err := host.Has(fioProgram); err != nil {
		return end, err
	}
	var out bytes.Buffer
	var log program.Log
	p, err := (&host.Local{}).Start(ctx, host.Cmd{Argv: f.argv(), Stdout: &out, Stderr: &log, CPUs: f.CPUs})
	if err != nil {
		return end, err
	}
	late, cancel := context.WithTimeout(ctx, f.For+patience)
	defer cancel()
	err = p.Wait(late)
	if late.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it hung: it did not end within %v and was killed", f.For+patience)
	}
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	err = errors.Join(err, p.Stop(stop, time.Second))
	if ctx.Err() != nil {
		return end, ctx.Err()
	}
	if err == nil {
		end, err = parseFio(out.Bytes(), f.Pattern)
	}
	if err != nil {
		return end, fmt.Errorf("fio %s on %s: %w %s", f.Pattern, f.Device, err, oneLine(log.String()))
	}
	end.Usage, err = p.Usage()
	end.Usage.Subject = fioProgram + " " + f.Pattern
	return end, err
}

// oneLine is the first line of s that is not empty, for an error's end.
func oneLine(s string) string {
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); l != "" {
			return "(" + l + ")"
		}
	}
	return ""
}

// parseFio reads what fio prints as JSON (version 3). It may say something in words
// before it.
func parseFio(text []byte, pattern string) (e FioEnd, err error) {
	type side struct {
		Bytes  uint64  `json:"io_bytes"`
		Rate   float64 `json:"bw_bytes"`
		IOPS   float64 `json:"iops"`
		Millis float64 `json:"runtime"`
		Clat   struct {
			Mean       float64            `json:"mean"`
			Percentile map[string]float64 `json:"percentile"`
		} `json:"clat_ns"`
	}
	var doc struct {
		Jobs []struct {
			Error int  `json:"error"`
			Read  side `json:"read"`
			Write side `json:"write"`
		} `json:"jobs"`
	}
	begin := bytes.IndexByte(text, '{')
	if begin < 0 {
		return e, errors.New("it printed no figures")
	}
	if err := json.Unmarshal(text[begin:], &doc); err != nil {
		return e, fmt.Errorf("read its figures: %w", err)
	}
	if len(doc.Jobs) != 1 {
		return e, fmt.Errorf("it told of %d groups of jobs, not of one", len(doc.Jobs))
	}
	j := doc.Jobs[0]
	if j.Error != 0 {
		return e, fmt.Errorf("it ended with error %d", j.Error)
	}
	s := j.Read
	if strings.HasSuffix(pattern, "write") {
		s = j.Write
	}
	e = FioEnd{Rate: s.Rate, IOPS: s.IOPS, Mean: s.Clat.Mean / 1e9, P99: s.Clat.Percentile["99.000000"] / 1e9, Bytes: s.Bytes, Seconds: s.Millis / 1e3}
	if e.Bytes == 0 || e.Rate <= 0 {
		return e, errors.New("it moved not one octet")
	}
	return e, nil
}
