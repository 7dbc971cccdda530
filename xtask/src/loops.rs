//! The loops over 64-byte vectors that a program has, read off its disassembly.

use std::collections::BTreeMap;

/// Function to the numbers of instructions of its innermost loops over 64-byte vectors, in order.
pub(crate) type Loops = BTreeMap<String, Vec<usize>>;

/// Reads what `objdump -d -C --no-show-raw-insn` prints, and keeps the functions of crate `krate`.
///
/// A loop is what lies between a jump backwards and its target. It is an innermost one if no other
/// lies within.
pub(crate) fn read(disassembly: &str, krate: &str) -> Loops {
    let mut loops = Loops::new();
    let path = format!("{krate}::");
    let mut function = None;
    let mut body = Vec::new();
    for line in disassembly.lines() {
        if let Some(name) = function_name(line) {
            keep(&mut loops, function.take(), &mut body);
            function = name.contains(&path).then(|| name.replace(&path, ""));
        } else if function.is_some() {
            body.extend(Instruction::read(line));
        }
    }
    keep(&mut loops, function, &mut body);
    loops
}

fn keep(loops: &mut Loops, function: Option<String>, body: &mut Vec<Instruction>) {
    let found = innermost_vector_loops(body);
    body.clear();
    if let Some(name) = function
        && !found.is_empty()
    {
        loops.entry(name).or_default().extend(found);
    }
}

/// The name in `0000000000024070 <name>:`.
fn function_name(line: &str) -> Option<&str> {
    let (address, name) = line.split_once(" <")?;
    u64::from_str_radix(address, 16).ok()?;
    name.strip_suffix(">:")
}

struct Instruction {
    address: u64,
    /// Where it may go on, if it is a jump to a fixed place.
    jumps_to: Option<u64>,
    has_wide_vector: bool,
}

impl Instruction {
    /// The one in `   24075:\tjne    24070 <name+0x10>`.
    fn read(line: &str) -> Option<Self> {
        let (address, text) = line.split_once(":\t")?;
        let address = u64::from_str_radix(address.trim(), 16).ok()?;
        let mut words = text.split_whitespace();
        let is_jump = words.next()?.starts_with('j');
        let target = words.next().and_then(|target| u64::from_str_radix(target, 16).ok());
        let jumps_to = target.filter(|_| is_jump);
        Some(Self { address, jumps_to, has_wide_vector: text.contains("%zmm") })
    }
}

fn innermost_vector_loops(body: &[Instruction]) -> Vec<usize> {
    let place = |address| body.binary_search_by_key(&address, |i| i.address).ok();
    let all: Vec<(usize, usize)> = (0..body.len())
        .filter_map(|end| {
            let start = place(body[end].jumps_to?)?;
            (start <= end).then_some((start, end))
        })
        .collect();
    let lies_within = |a: &(usize, usize), b: &(usize, usize)| a != b && b.0 <= a.0 && a.1 <= b.1;
    let is_innermost = |outer: &&(usize, usize)| !all.iter().any(|inner| lies_within(inner, outer));
    let wide = |&&(start, end): &&(usize, usize)| {
        body[start..=end].iter().any(|instruction| instruction.has_wide_vector)
    };
    all.iter().filter(is_innermost).filter(wide).map(|(start, end)| end - start + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISASSEMBLY: &str = "
instructions:     file format elf64-x86-64

0000000000001000 <engine::scan::<engine::Rule>>:
    1000:\tpush   %rbp
    1001:\txor    %eax,%eax
    1003:\tvmovdqu64 (%rdi,%rax,1),%zmm0
    1009:\tvptestmb %zmm0,%zmm0,%k0
    100f:\tadd    $0x40,%rax
    1013:\tjne    1003 <engine::scan::<engine::Rule>+0x3>
    1015:\tinc    %ecx
    1017:\tjmp    1003 <engine::scan::<engine::Rule>+0x3>
    1019:\tdec    %ecx
    101b:\tjne    1019 <engine::scan::<engine::Rule>+0x19>
    101d:\tje     1020 <engine::scan::<engine::Rule>+0x20>
    1020:\tret

0000000000002000 <elsewhere::scan>:
    2000:\tvmovdqu64 (%rdi),%zmm0
    2006:\tjne    2000 <elsewhere::scan>

0000000000003000 <engine::two>:
    3000:\tvpaddb %zmm0,%zmm1,%zmm1
    3006:\tjb     3000 <engine::two>
    3008:\tnop
    3009:\tvpaddb %zmm0,%zmm1,%zmm1
    300f:\tdec    %ecx
    3011:\tjne    3009 <engine::two+0x9>
    3013:\tjmp    *%rax
";

    #[test]
    fn innermost_loops_over_wide_vectors_are_counted() {
        let expected = [("scan::<Rule>", vec![4]), ("two", vec![2, 3])];
        let expected = expected.map(|(name, loops)| (name.to_owned(), loops));
        assert_eq!(read(DISASSEMBLY, "engine"), Loops::from(expected));
    }
}
