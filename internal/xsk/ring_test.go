// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"runtime"
	"testing"

	"pgregory.net/rapid"
)

// memory is a ring's, with its indices at begin.
func memory[T Desc | uint64](entries int, begin uint32) ring[T] {
	p, c, f := begin, begin, uint32(0)
	return ring[T]{producer: &p, consumer: &c, flags: &f, entries: make([]T, entries)}
}

// A ring does what a queue with a bound does, wherever its indices are.
func TestRingIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := 1 << rapid.IntRange(0, 5).Draw(t, "log2 entries")
		begin := rapid.Uint32().Draw(t, "begin")
		if rapid.Bool().Draw(t, "near the end") {
			begin = ^uint32(0) - begin%64
		}
		mem := memory[uint64](entries, begin)
		p := Producer[uint64]{ring: mem, next: begin}
		c := Consumer[uint64]{ring: mem, next: begin}
		// The twin: what was put and not published, published and not taken, taken and not released.
		var put, ready, taken []uint64
		value := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				room := entries - len(put) - len(ready) - len(taken)
				if p.Put(value) != (room > 0) {
					t.Fatalf("put with room for %d", room)
				}
				if room > 0 {
					put = append(put, value)
				}
				value++
			},
			"publish": func(*rapid.T) {
				p.Publish()
				ready, put = append(ready, put...), nil
			},
			"take": func(t *rapid.T) {
				v, ok := c.Take()
				if ok != (len(ready) > 0) || ok && v != ready[0] {
					t.Fatalf("took %d, %v of %v", v, ok, ready)
				}
				if ok {
					taken, ready = append(taken, v), ready[1:]
				}
			},
			"release": func(*rapid.T) {
				c.Release()
				taken = nil
			},
			"": func(t *rapid.T) {
				if got, want := p.Free(), entries-len(put)-len(ready)-len(taken); got != want {
					t.Fatalf("%d free, want %d", got, want)
				}
				if got := c.Ready(); got != len(ready) {
					t.Fatalf("%d ready, want %d", got, len(ready))
				}
				if got := p.Next() - p.Taken(); int(got) != len(put)+len(ready)+len(taken) {
					t.Fatalf("%d entries between Taken and Next", got)
				}
				for i, v := range put {
					if got := *p.At(p.Next() - uint32(len(put)-i)); got != v {
						t.Fatalf("entry %d is %d, want %d", i, got, v)
					}
				}
			},
		})
	})
}

// Two goroutines hand a million values over, each once and in order, with what
// they mean written before.
func TestRingBetweenThreads(t *testing.T) {
	const n = 1_000_000
	begin := ^uint32(0) - n/2
	mem := memory[Desc](256, begin)
	payload := make([]uint64, 256)
	p := Producer[Desc]{ring: mem, next: begin}
	c := Consumer[Desc]{ring: mem, next: begin}
	go func() {
		for i := uint64(0); i < n; {
			for i < n && p.Free() > 0 {
				payload[i%256] = i * 3
				p.Put(Desc{Addr: i, Len: uint32(i)})
				i++
			}
			p.Publish()
			runtime.Gosched()
		}
	}()
	for i := uint64(0); i < n; {
		if c.Ready() == 0 {
			runtime.Gosched()
			continue
		}
		for {
			d, ok := c.Take()
			if !ok {
				break
			}
			if d.Addr != i || d.Len != uint32(i) || payload[i%256] != i*3 {
				t.Fatalf("value %d: %+v with %d", i, d, payload[i%256])
			}
			i++
		}
		c.Release()
	}
}

func TestNeedWakeup(t *testing.T) {
	r := memory[Desc](2, 0)
	if r.needWakeup() {
		t.Error("a ring without its flag needs a wake-up")
	}
	*r.flags = ringNeedWakeup | 4
	if !r.needWakeup() {
		t.Error("the flag is not seen")
	}
}
