// Cuts data by restic's chunker and says how long it took.
//
//	chunker MIN MAX AVERAGE_BITS POLYNOMIAL_IN_HEX
//
// Standard input has the length of the data as eight little-endian bytes, the data, and then a byte
// for each time they shall be cut. For each, a line of JSON goes to standard output. The module
// takes a reader and copies each chunk, and offers no other way.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/restic/chunker"
)

type round struct {
	Seconds   float64 `json:"seconds"`
	CutPoints []uint  `json:"cut_points"`
}

type rule struct {
	min, max    uint
	averageBits int
	polynomial  chunker.Pol
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chunker:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	rule, err := parse(arguments)
	if err != nil {
		return err
	}
	input := bufio.NewReader(os.Stdin)
	var length uint64
	if err := binary.Read(input, binary.LittleEndian, &length); err != nil {
		return fmt.Errorf("the length of the data: %w", err)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(input, data); err != nil {
		return fmt.Errorf("%d bytes of data: %w", length, err)
	}
	output := json.NewEncoder(os.Stdout)
	for {
		if _, err := input.ReadByte(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		timed, err := rule.cut(data)
		if err != nil {
			return err
		}
		if err := output.Encode(timed); err != nil {
			return err
		}
	}
}

func parse(arguments []string) (rule, error) {
	if len(arguments) != 4 {
		return rule{}, fmt.Errorf("%d arguments, expected MIN MAX AVERAGE_BITS POLYNOMIAL", len(arguments))
	}
	var numbers [4]uint64
	for i, base := range []int{10, 10, 10, 16} {
		number, err := strconv.ParseUint(arguments[i], base, 64)
		if err != nil {
			return rule{}, err
		}
		numbers[i] = number
	}
	return rule{uint(numbers[0]), uint(numbers[1]), int(numbers[2]), chunker.Pol(numbers[3])}, nil
}

func (r rule) cut(data []byte) (round, error) {
	cutPoints := make([]uint, 0, len(data)/int(r.min)+1)
	buffer := make([]byte, 0, r.max)
	start := time.Now()
	cutter := chunker.NewWithBoundaries(bytes.NewReader(data), r.polynomial, r.min, r.max)
	cutter.SetAverageBits(r.averageBits)
	for {
		chunk, err := cutter.Next(buffer[:0])
		if err == io.EOF {
			break
		}
		if err != nil {
			return round{}, err
		}
		cutPoints = append(cutPoints, chunk.Start+chunk.Length)
	}
	return round{time.Since(start).Seconds(), cutPoints}, nil
}
