typedef int int32_t;
typedef long long int64_t;
typedef int index_t;

static __device__ index_t greater(index_t a, index_t b) {
  return a > b ? a : b;
}

static __device__ index_t lesser(index_t a, index_t b) {
  return a < b ? a : b;
}

// forall i:
//   forall j:
//     C(i,j) = A(i,j) + B(i,j)
// In the code, C is R.
extern "C" __global__ void __launch_bounds__(256) kernel_1(
    const index_t pieces,
    const index_t i_size,
    const index_t j_size,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ B_pos2,
    const int32_t *__restrict__ A_crd2,
    const int32_t *__restrict__ B_crd2,
    int64_t *__restrict__ piece_row_cuts,
    int64_t *__restrict__ piece_column_cuts,
    int64_t *__restrict__ piece_0_A_cuts,
    int64_t *__restrict__ piece_1_B_cuts
) {
  const index_t lane = threadIdx.x;
  const index_t cut_run = blockIdx.x;
  // where pieces begin
  const index_t cut = cut_run * 256 + lane;
  if (cut < pieces + 1) {
    const index_t cut_goal = cut * 32;
    index_t cut_row = 0;
    index_t cut_past = i_size + 1;
    while (cut_row + 1 < cut_past) {
      const index_t cut_middle = cut_row + (cut_past - cut_row) / 2;
      if (cut_middle + A_pos2[cut_middle] + B_pos2[cut_middle] <= cut_goal) {
        cut_row = cut_middle;
      } else {
        cut_past = cut_middle;
      }
    }
    const index_t cut_rest = cut_goal - (cut_row + A_pos2[cut_row] + B_pos2[cut_row]);
    index_t cut_column = 0;
    index_t piece_0_A_cuts_at = A_pos2[cut_row];
    index_t piece_1_B_cuts_at = B_pos2[cut_row];
    if (cut_rest > 1 && cut_row < i_size) {
      index_t cut_mine = greater(cut_rest - 1 - (B_pos2[cut_row + 1] - piece_1_B_cuts_at), 0);
      index_t cut_most = lesser(cut_rest - 1, A_pos2[cut_row + 1] - piece_0_A_cuts_at);
      while (cut_mine < cut_most) {
        const index_t cut_middle = cut_mine + (cut_most - cut_mine) / 2;
        if (A_crd2[piece_0_A_cuts_at + cut_middle] < B_crd2[piece_1_B_cuts_at + (cut_rest - 1 - cut_middle - 1)]) {
          cut_mine = cut_middle + 1;
        } else {
          cut_most = cut_middle;
        }
      }
      const index_t cut_theirs = cut_rest - 1 - cut_mine;
      piece_0_A_cuts_at += cut_mine;
      piece_1_B_cuts_at += cut_theirs;
      cut_column = j_size;
      if (piece_0_A_cuts_at < A_pos2[cut_row + 1]) {
        cut_column = A_crd2[piece_0_A_cuts_at];
      }
      if (piece_1_B_cuts_at < B_pos2[cut_row + 1]) {
        cut_column = lesser(cut_column, B_crd2[piece_1_B_cuts_at]);
      }
      if (cut_theirs > 0 && B_crd2[piece_1_B_cuts_at - 1] == cut_column) {
        piece_1_B_cuts_at = piece_1_B_cuts_at - 1;
      }
    }
    piece_row_cuts[cut] = cut_row;
    piece_column_cuts[cut] = cut_column;
    piece_0_A_cuts[cut] = piece_0_A_cuts_at;
    piece_1_B_cuts[cut] = piece_1_B_cuts_at;
  }
}

extern "C" __global__ void __launch_bounds__(64) kernel_2(
    const index_t pieces,
    const int64_t *__restrict__ piece_row_cuts,
    const int64_t *__restrict__ piece_column_cuts,
    const int32_t *__restrict__ A_pos2,
    const int64_t *__restrict__ piece_0_A_cuts,
    const int32_t *__restrict__ B_pos2,
    const int64_t *__restrict__ piece_1_B_cuts,
    const int32_t *__restrict__ A_crd2,
    const int32_t *__restrict__ B_crd2,
    int64_t *__restrict__ R2_first
) {
  const index_t lane = threadIdx.x;
  // count each piece
  const index_t piece_run = blockIdx.x;
  const index_t piece = piece_run * 64 + lane;
  if (piece < pieces) {
    const index_t piece_lo = piece_row_cuts[piece];
    const index_t piece_hi = piece_row_cuts[piece + 1] + (piece_column_cuts[piece + 1] > 0);
    index_t own2 = 0;
    // i of this run
    for (index_t i = piece_lo; i < piece_hi; i++) {
      index_t pA2 = A_pos2[i];
      index_t pA2_end = A_pos2[i + 1];
      if (i == piece_row_cuts[piece]) {
        pA2 = piece_0_A_cuts[piece];
      }
      if (i == piece_row_cuts[piece + 1]) {
        pA2_end = piece_0_A_cuts[piece + 1];
      }
      index_t pB2 = B_pos2[i];
      index_t pB2_end = B_pos2[i + 1];
      if (i == piece_row_cuts[piece]) {
        pB2 = piece_1_B_cuts[piece];
      }
      if (i == piece_row_cuts[piece + 1]) {
        pB2_end = piece_1_B_cuts[piece + 1];
      }
      // j of A and B, in order
      while (pA2 < pA2_end && pB2 < pB2_end) {
        const index_t jA = A_crd2[pA2];
        const index_t jB = B_crd2[pB2];
        if (jA == jB) {
          own2++;
          pA2++;
          pB2++;
        } else {
          const index_t j = jA < jB ? jA : jB;
          own2++;
          pA2 += jA == j;
          pB2 += jB == j;
        }
      }
      // rest of B
      while (pB2 < pB2_end) {
        own2++;
        pB2++;
      }
      // rest of A
      while (pA2 < pA2_end) {
        own2++;
        pA2++;
      }
    }
    R2_first[piece + 1] = own2;
  }
}

extern "C" __global__ void __launch_bounds__(1) kernel_3(
    int32_t *__restrict__ R_pos2
) {
  R_pos2[0] = 0;
}

extern "C" __global__ void __launch_bounds__(64) kernel_4(
    const index_t pieces,
    const int64_t *__restrict__ piece_row_cuts,
    const int64_t *__restrict__ piece_column_cuts,
    const int64_t *__restrict__ R2_first,
    const int32_t *__restrict__ A_pos2,
    const int64_t *__restrict__ piece_0_A_cuts,
    const int32_t *__restrict__ B_pos2,
    const int64_t *__restrict__ piece_1_B_cuts,
    const int32_t *__restrict__ A_crd2,
    const int32_t *__restrict__ B_crd2,
    double *__restrict__ R_vals,
    const double *__restrict__ A_vals,
    const double *__restrict__ B_vals,
    int32_t *__restrict__ R_crd2,
    int32_t *__restrict__ R_pos2
) {
  const index_t lane = threadIdx.x;
  // compute each piece into its place
  const index_t piece_run = blockIdx.x;
  const index_t piece = piece_run * 64 + lane;
  if (piece < pieces) {
    const index_t piece_lo = piece_row_cuts[piece];
    const index_t piece_hi = piece_row_cuts[piece + 1] + (piece_column_cuts[piece + 1] > 0);
    index_t own2 = R2_first[piece];
    // i of this run
    for (index_t i = piece_lo; i < piece_hi; i++) {
      index_t pA2_2 = A_pos2[i];
      index_t pA2_2_end = A_pos2[i + 1];
      if (i == piece_row_cuts[piece]) {
        pA2_2 = piece_0_A_cuts[piece];
      }
      if (i == piece_row_cuts[piece + 1]) {
        pA2_2_end = piece_0_A_cuts[piece + 1];
      }
      index_t pB2_2 = B_pos2[i];
      index_t pB2_2_end = B_pos2[i + 1];
      if (i == piece_row_cuts[piece]) {
        pB2_2 = piece_1_B_cuts[piece];
      }
      if (i == piece_row_cuts[piece + 1]) {
        pB2_2_end = piece_1_B_cuts[piece + 1];
      }
      // j of A and B, in order
      while (pA2_2 < pA2_2_end && pB2_2 < pB2_2_end) {
        const index_t jA = A_crd2[pA2_2];
        const index_t jB = B_crd2[pB2_2];
        if (jA == jB) {
          R_vals[own2] = A_vals[pA2_2] + B_vals[pB2_2];
          R_crd2[own2] = jA;
          own2++;
          pA2_2++;
          pB2_2++;
        } else {
          const index_t j = jA < jB ? jA : jB;
          const double B_val = B_vals[pB2_2];
          const double A_val = A_vals[pA2_2];
          R_vals[own2] = jB == j ? B_val : A_val;
          R_crd2[own2] = j;
          own2++;
          pA2_2 += jA == j;
          pB2_2 += jB == j;
        }
      }
      // rest of B
      while (pB2_2 < pB2_2_end) {
        const index_t j = B_crd2[pB2_2];
        R_vals[own2] = B_vals[pB2_2];
        R_crd2[own2] = j;
        own2++;
        pB2_2++;
      }
      // rest of A
      while (pA2_2 < pA2_2_end) {
        const index_t j = A_crd2[pA2_2];
        R_vals[own2] = A_vals[pA2_2];
        R_crd2[own2] = j;
        own2++;
        pA2_2++;
      }
      if (i < piece_row_cuts[piece + 1]) {
        R_pos2[i + 1] = own2;
      }
    }
  }
}
