// SPDX-License-Identifier: Apache-2.0

package frame

// A Source yields the frames of one stream in order: a capture, an application
// mix, a flood. What does not fit into memory at once comes window by window.
//
//	Source.Fill -> Window (a backend's own memory) -> fields, addresses of the pass, signature -> port
//
// A source is used by one goroutine at a time. Two sources made from the same
// input and seed yield the same frames.
type Source interface {
	// Shape is known before the first Fill and does not change.
	Shape() Shape
	// Fill appends frames to w from where the last call ended, until w is full
	// (nil) or the pass is over (io.EOF, with or without frames in w); the next
	// call begins the next pass. Any other error ends the source.
	Fill(w *Window) error
	// Notes are sentences on what the frames so far leave out or change: packets
	// cut, refused, a file that breaks off.
	Notes() []string
	Close() error
}

// A Shape is what is known of a whole source beforehand.
type Shape struct {
	Frames  uint64 // of a pass; 0: not known yet
	Octets  uint64 // of a pass in memory, about: buffers rounded up to 8; 0: not known
	Longest int    // of any frame, octets without FCS
	Timed   bool   // entries say when they were captured, or are to be sent
	Classes []string
	Draws   []Draw  // at most MaxDraws
	Fields  []Field // at most MaxFields
}

const (
	MaxDraws  = 8
	MaxFields = 16
	// MaxList is the most values of all draws' lists together.
	MaxList = 1 << 17
	// MaxClasses is the most classes of a source.
	MaxClasses = 16
)

// An Entry is one frame of a window. Its layout is that of struct entry in
// engine/xdp/bpf/replay.c. All offsets are even.
type Entry struct {
	At    uint64 // ns after the first frame of the pass; 0 where the source is not timed
	Off   uint32 // of its first octet in the window's blob, in units of 8 octets
	Len   uint16 // octets without FCS
	Class uint8  // index of Shape.Classes; signed frames carry stream number + class
	Flags EntryFlags
	L3    uint16 // offset of the IP header; 0: none
	L4    uint16 // offset of the TCP, UDP or ICMP header; 0: none, or a later fragment
	Sum   uint16 // offset of the layer-4 checksum that must stay right; 0: none
	Sig   uint16 // offset of the signature (Signature); 0: the frame is not signed
}

// EntryFlags say what an entry's frame is.
type EntryFlags uint8

const (
	IPv4    EntryFlags = 1 << iota // at L3
	IPv6                           // at L3
	SumUDP                         // Sum is UDP's: 0 is written as 0xffff
	Rewrite                        // IPv4 and IPv6 addresses may change with the pass (UniqueIP)
)

// A Window is memory that a source fills. Blob and Entries belong to a backend
// (they may be a BPF map's memory) and never grow.
type Window struct {
	Blob    []byte
	Entries []Entry
	// Chunk is a power of two that no frame may straddle in Blob: the size of one
	// value of a BPF map; 0: it does not matter.
	Chunk int

	used  int // octets of Blob
	count int // entries
}

// Reset empties the window.
func (w *Window) Reset() { w.used, w.count = 0, 0 }

// Len is how many entries are filled.
func (w *Window) Len() int { return w.count }

// Used is how many octets of Blob are filled.
func (w *Window) Used() int { return w.used }

// Next reserves room for a frame of n octets and returns the entry, with Off and
// Len set and all else zero, and the frame's memory, as it was left; both are nil
// where the window is full.
func (w *Window) Next(n int) (*Entry, []byte) {
	at := w.used
	if w.Chunk > 0 && at/w.Chunk != (at+n-1)/w.Chunk {
		at = (at/w.Chunk + 1) * w.Chunk
	}
	if w.count == len(w.Entries) || at+n > len(w.Blob) {
		return nil, nil
	}
	e := &w.Entries[w.count]
	*e = Entry{Off: uint32(at / 8), Len: uint16(n)}
	w.count++
	w.used = min((at+n+7)&^7, len(w.Blob))
	return e, w.Blob[at : at+n : at+n]
}

// Frame is the octets of entry i.
func (w *Window) Frame(i int) []byte {
	e := w.Entries[i]
	at := int(e.Off) * 8
	return w.Blob[at : at+int(e.Len)]
}

// A Draw is a number that is drawn anew for every frame of its class.
type Draw struct {
	Class uint8
	Kind  DrawKind
	Count uint32   // the number is 0 to Count-1; 0: any 32-bit number (Random only)
	List  []uint32 // the values of kind List, taken at random; draws of a popularity are lists
}

// A DrawKind is how a Draw's number follows the last one.
type DrawKind uint8

const (
	Counter DrawKind = iota // the next one, then 0 again
	Random                  // uniform
	List                    // uniform among Draw.List's values
)

// A Field is written into every frame of its class before it leaves, and the
// checksums that cover it are kept right:
//
//	value = From + (draw / Div % Mod) * Step, modulo 2^(8*Width)
type Field struct {
	Class  uint8
	Draw   uint8 // index of Shape.Draws
	Base   FieldBase
	Width  uint8  // octets: 1, 2 or 4
	Offset uint16 // from Base
	From   uint32
	Div    uint32 // 0 is 1
	Mod    uint32 // 0: no modulus
	Step   uint32 // 0 is 1
	Sums   FieldSums
}

// A FieldBase is what a Field's offset counts from.
type FieldBase uint8

const (
	FrameStart FieldBase = iota
	AtL3                 // Entry.L3
	AtL4                 // Entry.L4
)

// FieldSums are the checksums that cover a field. A field must begin at an even
// offset, or be one octet wide.
type FieldSums uint8

const (
	SumsIP FieldSums = 1 << iota // the IPv4 header's
	SumsL4                       // that at Entry.Sum: header and payload, or pseudo header
)
