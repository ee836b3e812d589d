// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"sync"
)

// A bus is an I2C bus with what sits on it.
type bus struct {
	mu    sync.Mutex
	chips map[uint16]*chip
}

// A chip has registers of 16 bits, the upper octet first, and one that says which of
// them is read: LM75 and INA219 do.
type chip struct {
	registers map[byte]uint16
	derive    func(registers map[byte]uint16) // of registers that the chip computes itself, after a change
	at        byte
}

// newLM75 is National's LM75: register 0 is the temperature, in steps of 0.5 °C.
func newLM75() *chip { return &chip{registers: map[byte]uint16{0: 0, 1: 0, 2: 75 << 8, 3: 80 << 8}} }

func (c *chip) celsius(v float64) { c.set(map[byte]uint16{0: uint16(int16(v*2)) << 7}) }

// newINA219 is Texas Instruments' INA219 (SBOS448): registers 0 to 5 are configuration,
// shunt voltage (10 µV), bus voltage (4 mV, above three flags), power, current and
// calibration.
func newINA219() *chip {
	return &chip{registers: map[byte]uint16{0: 0x399f, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0}, derive: func(r map[byte]uint16) {
		r[4] = uint16(uint32(r[1]) * uint32(r[5]) / 4096)
		r[3] = uint16(uint32(r[4]) * uint32(r[2]>>3) / 5000)
	}}
}

// load puts a voltage on the bus, and a current through a shunt of 10 mΩ.
func (c *chip) load(volts, amperes float64) {
	const ready = 2 // the conversion is done
	c.set(map[byte]uint16{1: uint16(amperes*0.01/10e-6 + 0.5), 2: uint16(volts/4e-3+0.5)<<3 | ready})
}

func (c *chip) set(values map[byte]uint16) {
	for r, v := range values {
		c.registers[r] = v
	}
	if c.derive != nil {
		c.derive(c.registers)
	}
}

// write is what a master writes: the register's number, and what shall be in it.
func (c *chip) write(data []byte) {
	if len(data) == 0 {
		return
	}
	c.at = data[0]
	if len(data) == 1 {
		return
	}
	v := uint16(data[1]) // the LM75's configuration has eight bits
	if len(data) > 2 {
		v = binary.BigEndian.Uint16(data[1:])
	}
	c.set(map[byte]uint16{c.at: v})
}

func (c *chip) read(n int) []byte {
	out := binary.BigEndian.AppendUint16(nil, c.registers[c.at])
	if n == 1 {
		return out[1:]
	}
	return append(out, make([]byte, max(0, n-2))...)[:n]
}

// transfer is one message of the bus; its error says that nobody answers there.
func (b *bus) transfer(address uint16, out []byte, in int) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.chips[address]
	if c == nil {
		return nil, fmt.Errorf("no chip has address %#x", address)
	}
	if in > 0 {
		return c.read(in), nil
	}
	c.write(out)
	return nil, nil
}

// move changes what chips measure.
func (b *bus) move(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}
