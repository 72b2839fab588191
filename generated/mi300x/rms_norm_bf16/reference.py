import torch.nn.functional as F


def rms_norm(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


reference = rms_norm
