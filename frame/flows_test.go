// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAddWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.OneOf(rapid.Just(byte(255)), rapid.Byte()), 0, 200).Draw(t, "octets")
		cut := rapid.IntRange(0, len(b)/2).Draw(t, "cut") * 2
		if got, want := foldWords(addWords(addWords(0, b[:cut]), b[cut:])), onesComplement(b); got != want {
			t.Fatalf("%#x, want %#x", got, want)
		}
	})
}

func TestTimelineIsInOrder(t *testing.T) {
	type step struct{ at, order uint64 }
	rapid.Check(t, func(t *rapid.T) {
		var h timeline[uint64]
		var twin []step
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			at := rapid.Uint64Range(0, 20).Draw(t, "at")
			switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
			case what < 2 || len(twin) == 0:
				h.push(at, uint64(i), uint64(i))
				twin = append(twin, step{at, uint64(i)})
			case what == 2:
				h.move(at)
				twin[0].at = at
			default:
				if got := h.pop(); got != twin[0].order {
					t.Fatalf("%d came first, want %d", got, twin[0].order)
				}
				twin = twin[1:]
			}
			slices.SortFunc(twin, func(a, b step) int {
				return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
			})
			if len(h) != len(twin) || len(h) > 0 && (h[0].at != twin[0].at || h[0].of != twin[0].order) {
				t.Fatalf("%v, want %v", h, twin)
			}
		}
	})
}

// No two flows share the client's address and port, before its ports are used up.
func TestAddressingIsFresh(t *testing.T) {
	for _, random := range []bool{false, true} {
		for _, stride := range []uint64{1, 4} {
			n, err := prefixes(netip.MustParsePrefix("198.18.0.8/29"), netip.MustParsePrefix("198.19.0.0/24"))
			if err != nil {
				t.Fatal(err)
			}
			n.seed, n.random, n.stride = 3, random, stride
			seen := map[endpoint]bool{}
			servers := map[[16]byte]int{}
			for k := range uint64(clientPorts) / stride {
				var ends [2]endpoint
				n.assign(&ends, k, 80)
				c := ends[0]
				if a := c.addr[3]; a < 9 || a > 14 || c.addr[4] != 0 || c.port < firstClientPort || int(c.port)+int(stride) > 65536 {
					t.Fatalf("flow %d comes from %+v", k, c)
				}
				for i := range uint16(stride) {
					p := c
					p.port += i
					if seen[p] {
						t.Fatalf("flow %d uses %+v again", k, p)
					}
					seen[p] = true
				}
				servers[ends[1].addr]++
			}
			if len(servers) != 254 {
				t.Errorf("%d servers of 254", len(servers))
			}
		}
	}
}

func TestArrivalsArePoisson(t *testing.T) {
	var a arrivals
	a.set(1000, []float64{3, 1})
	a.rewind(1)
	const n = 20_000
	var sum, squares float64
	kinds := [2]float64{}
	for range n {
		last := a.at
		kinds[a.kind]++
		a.step()
		gap := float64(a.at-last) / 1e6
		sum, squares = sum+gap, squares+gap*gap
	}
	if mean := sum / n; math.Abs(mean-1) > 0.03 {
		t.Errorf("mean gap %v ms", mean)
	}
	if v := squares/n - (sum/n)*(sum/n); math.Abs(v-1) > 0.1 { // exponential: the mean's square
		t.Errorf("variance %v", v)
	}
	if share := kinds[0] / n; math.Abs(share-0.75) > 0.015 {
		t.Errorf("share of the first kind %v", share)
	}
}
