typedef int int32_t;
typedef unsigned long long uint64_t;
typedef int index_t;

// Where the next chunk of iterations begins, for all threads of the block; `end`: there is none.
static __device__ inline index_t next_chunk(unsigned long long *counter, index_t chunk,
                                            index_t end) {
  __shared__ unsigned long long next;
  // All have read what was taken before. A thread that failed has left: then so do all.
  if (__syncthreads_count(1) < (int)blockDim.x) return end;
  if (threadIdx.x == 0) next = atomicAdd(counter, (unsigned long long)chunk);
  __syncthreads();
  return next < (unsigned long long)end ? (index_t)next : end;
}

static __device__ index_t lesser(index_t a, index_t b) {
  return a < b ? a : b;
}

// The last block to leave sets the counter back, for the next launch.
static __device__ inline void end_chunks(unsigned long long *counter) {
  if (threadIdx.x == 0) {
    __threadfence();
    if (atomicAdd(counter + 1, 1ull) + 1 == (unsigned long long)gridDim.x * gridDim.y) {
      atomicExch(counter, 0ull);
      atomicExch(counter + 1, 0ull);
    }
  }
}

// forall tile:  [GPUBlock, NoRaces, 2 at a time by 264, 64 threads, 2 per multiprocessor]
//   forall row:  [GPUThread, NoRaces]
//     forall j:
//       y(i) += A(i,j) * x(j)
// such that split(i, tile, row, 64)
// In the code, y is R, x is B, tile is i0, row is i1.
extern "C" __global__ void __launch_bounds__(64, 2) kernel_1(
    const index_t i0_end,
    const index_t i_size,
    uint64_t *__restrict__ chunks,
    const int32_t *__restrict__ A_pos2,
    const int32_t *__restrict__ A_crd2,
    const double *__restrict__ A_vals,
    const double *__restrict__ B_vals,
    double *__restrict__ R_vals
) {
  const index_t lane = threadIdx.x;
  index_t i0_chunk = next_chunk(chunks, 2, i0_end);
  while (i0_chunk < i0_end) {
    const index_t i0_chunk_end = lesser(i0_chunk + 2, i0_end);
    for (index_t i0 = i0_chunk; i0 < i0_chunk_end; i0++) {
      const index_t i_lo = i0 * 64;
      // i of this run
      const index_t i = i_lo + lane;
      if (i < i_size) {
        double R_sum = 0.0;
        // stored j of A
        for (index_t pA2 = A_pos2[i]; pA2 < A_pos2[i + 1]; pA2++) {
          const index_t j = A_crd2[pA2];
          R_sum += A_vals[pA2] * B_vals[j];
        }
        R_vals[i] = R_sum;
      }
    }
    i0_chunk = next_chunk(chunks, 2, i0_end);
  }
  end_chunks(chunks);
}
