"""vLLM's custom op `flashinfer_trtllm_fused_allreduce_norm`, met by ringfence.torch.

vLLM's fusion pass puts that op where an all-reduce and a norm follow one another. With the adapter registered in its
place (`group=get_tp_group().device_group`) the pass puts ringfence's kernels there. Started by itself, this file
shows both ways in which vLLM calls it, on virtual ranks.
"""

import torch

import ringfence.torch as rt


def adapter(group):
    def flashinfer_trtllm_fused_allreduce_norm(
        allreduce_in, residual, rms_gamma, rms_eps, world_size, launch_with_pdl, fp32_acc, max_token_num,
        pattern_code, norm_out=None, quant_out=None, scale_out=None, scale_factor=None,
    ):  # fmt: skip
        if quant_out is not None:
            raise NotImplementedError("ringfence.torch has no quantised output: leave +quant out of the fusion pass")
        if norm_out is None:  # the norm into allreduce_in, the sum into residual
            rt.fused_all_reduce_add_rms_norm_(allreduce_in, residual, rms_gamma, rms_eps, group)
        else:  # the norm into norm_out, the sum into allreduce_in
            rt.fused_all_reduce_add_rms_norm_out(
                allreduce_in, residual, rms_gamma, rms_eps, group, out=norm_out, residual_out=allreduce_in
            )

    return flashinfer_trtllm_fused_allreduce_norm


def main() -> None:
    size, tokens, hidden = 4, 16, 256
    group = rt.virtual_ranks(size, "cuda" if torch.cuda.is_available() else "cpu")
    op = adapter(group)
    like = {"dtype": torch.bfloat16, "device": group.device}
    # Whole numbers, so that sums are exact.
    x = torch.randint(-8, 8, (size, tokens, hidden), device=group.device).bfloat16()
    residual = torch.randint(-8, 8, (tokens, hidden), device=group.device).bfloat16().expand_as(x).contiguous()
    gamma = torch.ones(hidden, **like)
    z = x.float().sum(0) + residual[0].float()
    norm = torch.nn.functional.rms_norm(z, (hidden,), gamma.float(), 1e-6).bfloat16()
    fixed = {"world_size": size, "launch_with_pdl": True, "fp32_acc": True, "max_token_num": 1024, "pattern_code": 0}

    partial, total = x.clone(), residual.clone()
    op(partial, total, gamma, 1e-6, **fixed)
    torch.testing.assert_close(partial, norm.expand_as(partial), rtol=0.01, atol=0.01)
    assert torch.equal(rt.gather_residual(total, group).float(), z)

    partial, out = x.clone(), torch.empty_like(x)
    op(partial, residual, gamma, 1e-6, norm_out=out, **fixed)
    torch.testing.assert_close(out, norm.expand_as(out), rtol=0.01, atol=0.01)
    assert torch.equal(rt.gather_residual(partial, group).float(), z)
    print(f"both calls agree, on {group.device}")


if __name__ == "__main__":
    main()
