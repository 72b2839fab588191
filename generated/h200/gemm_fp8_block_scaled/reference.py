import torch


def linear(x, weight, x_scale, weight_scale):
    blocks = weight_scale.repeat_interleave(128, 0)[: weight.shape[0]]
    wide_x = x.float() * x_scale.repeat_interleave(128, 1)
    wide_weight = weight.float() * blocks.repeat_interleave(128, 1)
    return (wide_x @ wide_weight.T).to(torch.bfloat16)


reference = linear
