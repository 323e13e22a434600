package testutil

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// StackLimit is what the kernel allows a program and the functions that it calls
// to have of the stack together, in bytes.
const StackLimit = 512

// DeepestStack is how deep a program's calls make the stack, in bytes, and by
// which functions. Each one's part is counted as kernels before 6.5 do, up to the
// next 32 bytes; newer ones count less.
func DeepestStack(spec *ebpf.ProgramSpec) (int, string) {
	frames, calls := map[string]int{}, map[string]map[string]bool{}
	var name, first string
	var based [16]bool // registers that hold the frame's address
	for i, ins := range spec.Instructions {
		if s := ins.Symbol(); s != "" && (i == 0 || calls[s] == nil) {
			name, calls[s], based = s, map[string]bool{}, [16]bool{}
			if first == "" {
				first = s
			}
		}
		op, depth := ins.OpCode, 0
		switch class := op.Class(); {
		case ins.IsFunctionCall():
			calls[name][ins.Reference()] = true
		case class.IsLoad() && ins.Src == asm.R10, class.IsStore() && ins.Dst == asm.R10:
			depth = -int(ins.Offset)
		case class.IsALU() && op.ALUOp() == asm.Mov && op.Source() == asm.RegSource:
			based[ins.Dst] = ins.Src == asm.R10
		case class.IsALU() && op.ALUOp() == asm.Add && op.Source() == asm.ImmSource && based[ins.Dst]:
			depth = -int(ins.Constant)
			based[ins.Dst] = false
		}
		frames[name] = max(frames[name], depth)
	}
	return deepest(first, frames, calls)
}

func deepest(name string, frames map[string]int, calls map[string]map[string]bool) (below int, path string) {
	for callee := range calls[name] {
		if depth, its := deepest(callee, frames, calls); depth > below {
			below, path = depth, its
		}
	}
	return max(32, (frames[name]+31)/32*32) + below, fmt.Sprintf("%s %d, %s", name, frames[name], path)
}
