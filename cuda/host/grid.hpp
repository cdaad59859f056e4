// Whether a grid can be resident as a whole. Blocks that wait for one another must all run at once.
#pragma once

namespace ringfence::cuda {

/// Throws Error(invalid_argument) that says how many blocks a rank would fit, if `blocks` blocks
/// for each of `ranks` ranks cannot all be resident on the device.
void require_resident(int device, const void* kernel, int threads, int shared_bytes, int blocks,
                      int ranks);

}  // namespace ringfence::cuda
