"""What makes a scheduled kernel the one that was asked for, whatever its details are.

The exact text is compared by test_golden.py; this reads it from tests/golden.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.optimized


def kernel_of(name: str) -> str:
    """The function itself, without the helpers before it."""
    text = (Path(__file__).parent.parent / "golden" / f"{name}.c").read_text()
    return text[text.index("int32_t kernel(") :]


def has_in_order(text: str, *patterns: str) -> None:
    """Each pattern is found after the one before it."""
    at = 0
    for pattern in patterns:
        found = re.compile(pattern).search(text, at)
        assert found, f"{pattern!r} is not in\n{text[at:]}"
        at = found.end()


ENTRIES = r"for \(int64_t pA2 = A_pos2\[i\]; pA2 < A_pos2\[i \+ 1\]; pA2\+\+\)"
SPLIT = r"for \(int64_t \w+ = 0; \w+ < \w+_end; \w+\+\+\)"
SHARED = r"#pragma omp parallel for .*\n\s*for \(int64_t part = 0; part < \w+; part\+\+\)"
POSITIONS = r"while \(pA2_at < \w+\)"  # segment by segment, so that the loop inside has no branch
TRACK = r"while \(pA2_at == A_pos2\[pA1 \+ 1\]\) \{\s*pA1\+\+;\s*\}"
SEGMENT = r"for \(int64_t (\w+) = pA2_at; \w+ < pA2_stop; \w+\+\+\)"


def test_figure_2_1b_is_a_loop_over_rows_and_one_over_entries() -> None:
    text = kernel_of("spmv_figure_2_1b")
    assert text.count("for (") == 2
    has_in_order(text, r"for \(int64_t i = 0; i < i_size; i\+\+\)", ENTRIES, r"R_vals\[i\] = R_sum")


def test_figure_2_1c_has_runs_of_four_rows() -> None:
    text = kernel_of("spmv_figure_2_1c")
    assert text.count("for (") == 3
    has_in_order(text, r"\(i_size \+ .*\) / 4", SPLIT, r"lesser\(.*, i_size\)", r"for \(", ENTRIES)


def test_figure_2_1d_is_one_loop_over_positions_that_tracks_the_row() -> None:
    text = kernel_of("spmv_figure_2_1d")
    assert text.count("for (") == 1
    assert "omp" not in text
    has_in_order(text, POSITIONS, TRACK, r"R_sum = R_vals\[i\]", SEGMENT, r"R_sum \+= A_vals\[")
    has_in_order(text, SEGMENT, r"R_vals\[i\] = R_sum", r"pA2_at = pA2_stop")


def test_figure_6_1_searches_tracks_and_is_atomic_only_where_rows_are_shared() -> None:
    text = kernel_of("spmv_figure_6_1")
    has_in_order(
        text,
        SHARED,
        r"pA1 = last_at_most_int32\(A_pos2, ",  # once for a thread's share of all chunks
        POSITIONS,
        TRACK,
        r"R_sum = 0\.0",
        SEGMENT,
        r"if \(\w+ <= A_pos2\[pA1\] && A_pos2\[pA1 \+ 1\] <= \w+\)",
        r"R_vals\[i\] \+= R_sum",
        r"else \{\s*#pragma omp atomic\s*R_vals\[i\] \+= R_sum",
    )
    assert text.count("last_at_most_int32(") == 1
    assert text.count("#pragma omp atomic") == 1


def test_chunks_of_rows_are_whole() -> None:
    text = kernel_of("spmv_a1")
    has_in_order(text, SHARED, r"\w+ \* 32", ENTRIES, r"R_vals\[i\] = R_sum")
    assert "atomic" not in text


def test_strided_runs_are_guarded() -> None:
    text = kernel_of("spmv_strided")
    has_in_order(text, r"for \(int64_t i1 = 0; i1 < 4; i1\+\+\)", r"i0 \* 4", ENTRIES)


def test_balanced_parts_are_cut_by_a_search() -> None:
    text = kernel_of("spmv_balanced")
    has_in_order(text, SHARED, r"balanced_cut_int32\(A_pos2, .*, 8\)", ENTRIES)
    assert "atomic" not in text


def test_lanes_have_sums_of_their_own() -> None:
    text = kernel_of("sddmm_lanes")
    has_in_order(text, r"R_sum = 0\.0", r"#pragma omp simd reduction\(\+ ?: ?R_sum\)\n\s*for \(")


def test_gathered_lanes_are_masked() -> None:
    text = kernel_of("spmv_lanes")
    whole = r"pA2 < pA2_whole; pA2 \+= LANES_masked_float64\)"
    rest = r"if \(pA2_whole < A_pos2\[i \+ 1\]\)"
    sums = (r"sum_rows_float64\(i_rows, i_sums\)", r"R_sum = i_sums\[i_row\]")
    has_in_order(text, r"i_row < 8", "R_sum_lanes = {0}", whole, rest, *sums)


def test_galloping_searches_from_where_it_is() -> None:
    text = kernel_of("spmv_gallop")
    has_in_order(
        text,
        r"while \(pA2 < pA2_end && pB1 < pB1_end\)",
        r"if \(jA == jB\)",
        r"gallop_int32\(A_crd2, pA2,",
    )


def test_position_tiles_have_their_sum_in_a_register() -> None:
    text = kernel_of("spmm_a3")
    has_in_order(
        text, SHARED, r"#pragma omp simd\n\s*for \(int64_t k = 0", r"R_sum \+=", r"= R_sum"
    )
    assert "atomic" not in text


def test_factored_mttkrp_multiplies_after_it_has_summed() -> None:
    text = kernel_of("mttkrp_a5")
    has_in_order(
        text, SHARED, r"A_pos2\[pA1\]", r"A_pos3\[pA2\]", r"R_vals\[.*\] \+= W_vals\[k\] \* "
    )
    assert not re.search(r"A_pos3.*R_vals\[.*\+=.*A_vals", text)


def test_tiled_union_searches_both_operands_for_each_tile() -> None:
    text = kernel_of("add_tiled")
    has_in_order(
        text,
        SPLIT,
        r"pA2 = lower_bound_int32\(A_crd2, ",
        r"pB2 = lower_bound_int32\(B_crd2, ",
        r"while \(pA2 < pA2_end && pB2 < pB2_end\)",
        r"while \(pB2 < pB2_end\)",
        r"while \(pA2 < pA2_end\)",
    )


def test_a_fused_product_skips_rows() -> None:
    """Fusing must not lose that a row which one operand lacks can be passed over at once."""
    text = kernel_of("dcsr_times_fused")
    has_in_order(
        text, r"while \(pA1 < pA1_end", r"if \(iA == iB\)", r"while \(pA2 < pA2_end", r"jA == jB"
    )


def test_a_register_tile_is_written_once() -> None:
    """Full runs of eight columns are unrolled; what is left has a loop of its own."""
    text = kernel_of("spmm_registers")
    has_in_order(
        text, SHARED, r"#pragma GCC unroll 8\n\s*for \(int64_t \w+ = 0; \w+ < 8; \w+\+\+\)"
    )
    assert len(re.findall(r"R_vals\[[^\]]*\] = ", text)) == 2
    assert not re.search(r"R_vals\[[^\]]*\] \+= ", text)
