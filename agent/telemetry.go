// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"boxdyno/result"
	"boxdyno/telemetry"
	"boxdyno/unit"
)

// TelemetryArgs say what is read.
type TelemetryArgs struct {
	Collectors []string `json:"collectors"`    // nil: those by default
	Any        bool     `json:"any,omitempty"` // those of Collectors that are absent are no error
}

// TelemetryOpened is what there is to read.
type TelemetryOpened struct {
	Series []result.Series `json:"series"`
	Absent []string        `json:"absent,omitempty"` // collectors, each with why
}

// TelemetryReading is a value of each series.
type TelemetryReading struct {
	At       unit.Instant `json:"at_ns"` // of the box's CLOCK_MONOTONIC, when they had been read
	Values   Values       `json:"values"`
	Warnings []string     `json:"warnings,omitempty"` // since the last reading
}

// Values are numbers; NaN, which is absent, is null.
type Values []float64

// MarshalJSON writes numbers and null.
func (v Values) MarshalJSON() ([]byte, error) {
	out := make([]*float64, len(v))
	for i := range v {
		if !math.IsNaN(v[i]) && !math.IsInf(v[i], 0) {
			out[i] = &v[i]
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads them.
func (v *Values) UnmarshalJSON(data []byte) error {
	var in []*float64
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*v = make(Values, len(in))
	for i, x := range in {
		if (*v)[i] = math.NaN(); x != nil {
			(*v)[i] = *x
		}
	}
	return nil
}

// openTelemetry opens collectors in the place of those that were open.
func (s *Session) openTelemetry(_ context.Context, a TelemetryArgs) (TelemetryOpened, error) {
	r, err := telemetry.NewReader(s.lasting, &telemetry.Machine{}, telemetry.Options{Names: a.Collectors, Any: a.Any, Warn: s.warn})
	if err != nil {
		return TelemetryOpened{}, err
	}
	s.atEnd(r.Close)
	s.mu.Lock()
	before := s.reader
	s.reader = r
	s.mu.Unlock()
	if before != nil {
		err = before.Close()
	}
	return TelemetryOpened{r.Series(), r.Absent()}, err
}

// warn keeps a warning for the next reading.
func (s *Session) warn(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings = append(s.warnings, text)
}

func (s *Session) readTelemetry(context.Context, None) (TelemetryReading, error) {
	s.mu.Lock()
	r := s.reader
	s.mu.Unlock()
	if r == nil {
		return TelemetryReading{}, errors.New("no telemetry is open")
	}
	out := TelemetryReading{Values: make(Values, len(r.Series()))}
	err := r.Read(out.Values)
	out.At = unit.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Warnings, s.warnings = s.warnings, nil
	return out, err
}

func (s *Session) closeTelemetry(context.Context, None) (None, error) {
	s.mu.Lock()
	r := s.reader
	s.reader = nil
	s.mu.Unlock()
	if r == nil {
		return None{}, nil
	}
	return None{}, r.Close()
}
