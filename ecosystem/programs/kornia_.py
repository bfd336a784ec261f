import kornia
import torch


def try_images():
    x = torch.rand(2, 3, 16, 16, requires_grad=True)
    out = [
        kornia.color.rgb_to_grayscale(x),
        kornia.color.rgb_to_hsv(x),
        kornia.color.rgb_to_lab(x),
        kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)),
        kornia.filters.sobel(x),
        kornia.filters.median_blur(x, (3, 3)),
        kornia.geometry.rotate(x, torch.tensor([30.0, 45.0])),
        kornia.geometry.resize(x, (8, 8)),
        kornia.enhance.adjust_contrast(x, 0.5),
        kornia.filters.canny(x)[0],
        kornia.morphology.dilation(x, torch.ones(3, 3)),
    ]
    sum(o.sin().sum() for o in out).backward()
    return [*out, x.grad]


def try_geometry():
    points = torch.rand(1, 4, 2) * 10
    other = points + torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 0.0]]])
    h = kornia.geometry.get_perspective_transform(points, other)
    q = kornia.geometry.axis_angle_to_rotation_matrix(torch.tensor([[0.1, 0.2, 0.3]]))
    return [h, q, kornia.geometry.warp_perspective(torch.rand(1, 1, 8, 8), h, (8, 8))]


def try_losses():
    x, y = torch.rand(2, 3, 12, 12, requires_grad=True), torch.rand(2, 3, 12, 12)
    loss = (
        kornia.losses.ssim_loss(x, y, 5)
        + kornia.losses.total_variation(x).mean()
        + kornia.losses.psnr_loss(x, y, 1.0)
    )
    loss.backward()
    return [loss, x.grad]


def try_augmentation():
    x = torch.rand(2, 3, 16, 16)
    augment = kornia.augmentation.AugmentationSequential(
        kornia.augmentation.RandomHorizontalFlip(p=0.5),
        kornia.augmentation.RandomAffine(20.0, p=1.0),
        kornia.augmentation.ColorJitter(0.2, 0.2, 0.2, 0.1, p=1.0),
    )
    return augment(x)
