// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/internal/ethtool"
)

// feature is one offload: one of the kernel's features, or several that belong
// together (ethtool -k, -K). A feature may be asked for and not in force while another
// one that it needs is off. Its value says both: "on", "off", "off, asked on", "on,
// asked off". Features of a group that differ stand one by one:
// "tx-tcp-segmentation=on tx-tcp6-segmentation=off".
func feature(name, doc, link string, kernel ...string) Spec {
	return Spec{
		Name: name, Doc: doc, Values: "on, off", Scope: PerPort, Check: oneOf("on", "off"),
		Read: func(_ context.Context, at Site) (string, error) {
			states, err := featureStates(at, kernel)
			if err != nil {
				return "", err
			}
			return featuresText(kernel, states), nil
		},
		Resolve: func(_ context.Context, at Site, asked, now string) (string, error) {
			if asked == now {
				return asked, nil // also where it is fixed at that
			}
			states, err := featureStates(at, kernel)
			if err == nil {
				_, err = featuresWanted(kernel, states, asked)
			}
			return asked, err
		},
		Write: func(_ context.Context, at Site, value string) error {
			states, err := featureStates(at, kernel)
			if err != nil {
				return err
			}
			want, err := featuresWanted(kernel, states, value)
			if err != nil {
				return err
			}
			return at.tool(func(e *ethtool.Socket) error { return e.SetFeatures(at.Port, want) })
		},
		Export: func(port, value string) (out []Exported, _ error) {
			if link == "" {
				words := []string{"ethtool -K", port}
				for _, f := range kernel {
					words = append(words, f, value)
				}
				return command(strings.Join(words, " ")), nil
			}
			for _, key := range strings.Fields(link) {
				out = append(out, Exported{Kind: Link, Text: key + "=" + value})
			}
			return out, nil
		},
	}
}

// featureStates are those of a port's features that its driver has.
func featureStates(at Site, kernel []string) (map[string]ethtool.Feature, error) {
	var all map[string]ethtool.Feature
	err := at.tool(func(e *ethtool.Socket) (err error) {
		all, err = e.Features(at.Port)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := map[string]ethtool.Feature{}
	for _, f := range kernel {
		if s, ok := all[f]; ok {
			out[f] = s
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w by this kernel", host.ErrNotSupported)
	}
	return out, nil
}

func changeable(s ethtool.Feature) bool { return s.Available && !s.NeverChanged }

// featuresText leaves out what cannot be changed, where something else can.
func featuresText(kernel []string, states map[string]ethtool.Feature) string {
	onOff := map[bool]string{true: "on", false: "off"}
	var names, words []string
	for _, only := range []bool{true, false} {
		for _, f := range kernel {
			s, ok := states[f]
			if !ok || changeable(s) != only {
				continue
			}
			w := onOff[s.Active]
			if only && s.Requested != s.Active {
				w += ", asked " + onOff[s.Requested]
			}
			names, words = append(names, f), append(words, w)
		}
		if len(words) > 0 {
			break
		}
	}
	if len(slices.Compact(slices.Clone(words))) == 1 {
		return words[0]
	}
	for i := range words {
		words[i] = names[i] + "=" + words[i]
	}
	return strings.Join(words, "; ")
}

// featuresWanted is what a value asks of each feature that can be changed.
func featuresWanted(kernel []string, states map[string]ethtool.Feature, value string) (map[string]bool, error) {
	each := map[string]string{}
	if strings.Contains(value, "=") {
		for w := range strings.SplitSeq(value, "; ") {
			f, v, _ := strings.Cut(w, "=")
			each[f] = v
		}
	}
	want := map[string]bool{}
	for _, f := range kernel {
		s, ok := states[f]
		if !ok || !changeable(s) {
			continue
		}
		v := value
		if len(each) > 0 {
			if v, ok = each[f]; !ok {
				continue
			}
		}
		if _, asked, ok := strings.Cut(v, ", asked "); ok {
			v = asked
		}
		want[f] = v == "on"
	}
	if len(want) == 0 {
		return nil, fmt.Errorf("%w by this driver: it is fixed at %s", host.ErrNotSupported, featuresText(kernel, states))
	}
	return want, nil
}
