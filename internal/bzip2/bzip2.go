// Package bzip2 compresses data with bzip2, which Go's own package [compress/bzip2] can only decompress. It is made for
// messages: blocks have at most 100,000 bytes and one Huffman table each.
package bzip2

import (
	"bytes"
	"cmp"
	"slices"
)

const (
	blockSize = 100_000 - 20 // of level 1, without the bytes that the format leaves unused
	groupSize = 50           // number of symbols for which a table is chosen
	runA      = 0            // runA and runB are the digits of the lengths of runs of zeros
	runB      = 1

	// maxLength is the longest code. The format allows 20 bits, the first decoders 17.
	maxLength = 17
)

// Append compresses data and appends it to out.
func Append(out, data []byte) []byte {
	w := bits{out: append(out, "BZh1"...)}
	var whole uint32
	for len(data) > 0 {
		block, taken := packRuns(data)
		sum := checksum(data[:taken])
		whole = (whole<<1 | whole>>31) ^ sum
		data = data[taken:]
		w.write(0x314159265359, 48)
		w.write(uint64(sum), 32)
		w.block(block)
	}
	w.write(0x177245385090, 48)
	w.write(uint64(whole), 32)
	return w.end()
}

// packRuns replaces runs of 4 to 255 equal bytes by four of them and the number of the others. It
// takes as many bytes of data as fill a block and returns how many it took.
func packRuns(data []byte) (block []byte, taken int) {
	for taken < len(data) && len(block) < blockSize {
		n, b := 1, data[taken]
		for n < 255 && taken+n < len(data) && data[taken+n] == b {
			n++
		}
		taken += n
		block = append(block, bytes.Repeat([]byte{b}, min(n, 4))...)
		if n >= 4 {
			block = append(block, byte(n-4))
		}
	}
	return block, taken
}

// checksum returns a CRC-32 with the order of bits that hash/crc32 doesn't support.
func checksum(data []byte) uint32 {
	sum := ^uint32(0)
	for _, b := range data {
		sum = sum<<8 ^ checksums[byte(sum>>24)^b]
	}
	return ^sum
}

var checksums = func() (table [256]uint32) {
	for i := range table {
		sum := uint32(i) << 24
		for range 8 {
			sum = sum<<1 ^ 0x04C11DB7*(sum>>31)
		}
		table[i] = sum
	}
	return table
}()

// bits writes numbers of some bits, the highest bit first.
type bits struct {
	out  []byte
	last uint64 // the bits that don't fill a byte yet
	n    int    // their number
}

func (w *bits) write(number uint64, n int) {
	for n > 32 {
		n -= 32
		w.write(number>>n&(1<<32-1), 32)
	}
	w.last, w.n = w.last<<n|number&(1<<n-1), w.n+n
	for ; w.n >= 8; w.n -= 8 {
		w.out = append(w.out, byte(w.last>>(w.n-8)))
	}
}

func (w *bits) end() []byte {
	if w.n > 0 {
		w.write(0, 8-w.n)
	}
	return w.out
}

// block writes one block, after its checksum.
func (w *bits) block(block []byte) {
	order := rotations(block)
	w.write(0, 1) // not randomised
	w.write(uint64(slices.Index(order, 0)), 24)

	var used [256]bool
	for _, b := range block {
		used[b] = true
	}
	w.alphabet(used[:])
	symbols, kinds := moveToFront(block, order, used[:])

	lengths := codeLengths(symbols, kinds)
	groups := (len(symbols) + groupSize - 1) / groupSize
	w.write(2, 3) // number of tables; one isn't allowed, so there are two, and all groups choose the first
	w.write(uint64(groups), 15)
	for range groups {
		w.write(0, 1)
	}
	w.table(lengths)
	w.table(lengths)
	codes := codesOf(lengths)
	for _, s := range symbols {
		w.write(codes[s], lengths[s])
	}
}

// alphabet writes which bytes occur: first in which groups of sixteen, then which bytes of these groups.
func (w *bits) alphabet(used []bool) {
	for sixteen := range slices.Chunk(used, 16) {
		w.flag(slices.Contains(sixteen, true))
	}
	for sixteen := range slices.Chunk(used, 16) {
		if slices.Contains(sixteen, true) {
			for _, u := range sixteen {
				w.flag(u)
			}
		}
	}
}

func (w *bits) flag(set bool) {
	if set {
		w.write(1, 1)
	} else {
		w.write(0, 1)
	}
}

// table writes the lengths of codes, each as the difference from the one before.
func (w *bits) table(lengths []int) {
	at := lengths[0]
	w.write(uint64(at), 5)
	for _, l := range lengths {
		for ; at < l; at++ {
			w.write(0b10, 2)
		}
		for ; at > l; at-- {
			w.write(0b11, 2)
		}
		w.write(0, 1)
	}
}

// rotations returns the starts of the rotations of a block in sorted order. It sorts them by
// their first 1, 2, 4, … bytes in turn (prefix doubling).
func rotations(block []byte) []int {
	n := len(block)
	order, next := make([]int, n), make([]int, n)
	rank, nextRank := make([]int, n), make([]int, n)
	first := make([]int, max(n, 256)+1) // by rank: the place of the first rotation
	ranks := 256
	for i, b := range block {
		next[i], rank[i] = i, int(b)
	}
	for width := 0; ; width = max(1, 2*width) {
		// next is sorted by the second half of the prefix. A stable sort by the first half follows.
		if width > 0 {
			for i, at := range order {
				if next[i] = at - width; next[i] < 0 {
					next[i] += n
				}
			}
		}
		clear(first[:ranks+1])
		for _, r := range rank {
			first[r+1]++
		}
		for r := range ranks {
			first[r+1] += first[r]
		}
		for _, at := range next {
			order[first[rank[at]]] = at
			first[rank[at]]++
		}
		ranks = 0
		for i, at := range order {
			before := order[max(i-1, 0)]
			if i == 0 || rank[at] != rank[before] || rank[(at+width)%n] != rank[(before+width)%n] {
				ranks++
			}
			nextRank[at] = ranks - 1
		}
		rank, nextRank = nextRank, rank
		if ranks == n || 2*width >= n {
			return order
		}
	}
}

// moveToFront encodes the bytes before the rotations, in the order of the rotations: each as its
// place among the recently seen bytes, runs of zeros as numbers, then a symbol for the end. kinds is the number of
// different symbols that may occur.
func moveToFront(block []byte, order []int, used []bool) (symbols []uint16, kinds int) {
	var recent []byte
	for b, u := range used {
		if u {
			recent = append(recent, byte(b))
		}
	}
	kinds = len(recent) + 2
	zeros := 0
	flush := func() {
		for ; zeros > 0; zeros = (zeros - 1) / 2 {
			symbols = append(symbols, uint16(runA+(zeros-1)%2*(runB-runA)))
		}
	}
	for _, at := range order {
		if at == 0 {
			at = len(block)
		}
		b := block[at-1]
		place := bytes.IndexByte(recent, b)
		if place == 0 {
			zeros++
			continue
		}
		flush()
		copy(recent[1:], recent[:place])
		recent[0] = b
		symbols = append(symbols, uint16(place+1))
	}
	flush()
	return append(symbols, uint16(kinds-1)), kinds
}

// codeLengths returns the lengths of Huffman codes. As long as one is too long, it halves the differences between the counts
// and starts again.
func codeLengths(symbols []uint16, kinds int) []int {
	type node struct {
		count   int
		symbols []int
	}
	counts := make([]int, kinds)
	for _, s := range symbols {
		counts[s]++
	}
	for {
		lengths, nodes := make([]int, kinds), make([]node, kinds)
		for s, n := range counts {
			nodes[s] = node{max(n, 1), []int{s}} // each kind needs a code
		}
		byCount := func(a, b node) int { return cmp.Compare(a.count, b.count) }
		slices.SortStableFunc(nodes, byCount)
		for len(nodes) > 1 {
			both := node{nodes[0].count + nodes[1].count, slices.Concat(nodes[0].symbols, nodes[1].symbols)}
			for _, s := range both.symbols {
				lengths[s]++
			}
			nodes = nodes[2:]
			at, _ := slices.BinarySearchFunc(nodes, both, byCount)
			nodes = slices.Insert(nodes, at, both)
		}
		if slices.Max(lengths) <= maxLength {
			return lengths
		}
		for s := range counts {
			counts[s] = counts[s]/2 + 1
		}
	}
}

// codesOf returns the canonical codes with these lengths.
func codesOf(lengths []int) []uint64 {
	codes, next := make([]uint64, len(lengths)), uint64(0)
	for l := 1; l <= maxLength; l++ {
		for s, length := range lengths {
			if length == l {
				codes[s] = next
				next++
			}
		}
		next <<= 1
	}
	return codes
}
