typedef int int32_t;
typedef int index_t;

static __device__ index_t lesser(index_t a, index_t b) {
  return a < b ? a : b;
}

// forall b:  [GPUBlock, Temporary]
//   forall t:
//     forall j:
//       y(j) += A(i,j)
// such that split(i, b, t, 16)
// In the code, y is R, b is i0, t is i1.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t parts,
    const index_t j_size,
    double *__restrict__ R_parts
) {
  const index_t lane = threadIdx.x;
  const index_t part_at_run = blockIdx.x;
  const index_t part_at = part_at_run * 256 + lane;
  if (part_at < parts * j_size) {
    R_parts[part_at] = 0.0;
  }
}

extern "C" __global__ void __launch_bounds__(1) kernel_2(
    const index_t i0_end,
    const index_t parts,
    const index_t i_size,
    const index_t j_size,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    double *__restrict__ R_parts,
    const double *__restrict__ A_vals
) {
  const index_t part = blockIdx.x;
  for (index_t part_round = 0; part_round < (i0_end - part + (parts - 1)) / parts; part_round++) {
    const index_t i0 = part + part_round * parts;
    const index_t i_lo = i0 * 16;
    const index_t i_hi = lesser(i_lo + 16, i_size);
    // i of this run
    for (index_t i = i_lo; i < i_hi; i++) {
      // stored j of A
      for (index_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
        const index_t j = A_crd2[pA2];
        R_parts[part * j_size + j] += A_vals[pA2];
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) kernel_3(
    const index_t j_size,
    const index_t parts,
    double *__restrict__ R_vals,
    const double *__restrict__ R_parts
) {
  const index_t lane = threadIdx.x;
  const index_t part_at_run = blockIdx.x;
  // the parts of all blocks
  const index_t part_at = part_at_run * 256 + lane;
  if (part_at < j_size) {
    for (index_t part = 0; part < parts; part++) {
      R_vals[part_at] += R_parts[part * j_size + part_at];
    }
  }
}
