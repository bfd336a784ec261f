import torch
import torchmetrics
from torchmetrics import classification as C
from torchmetrics import regression as R


def try_classification():
    scores, labels = torch.randn(20, 4).softmax(-1), torch.randint(0, 4, (20,))
    kinds = (
        C.MulticlassAccuracy,
        C.MulticlassF1Score,
        C.MulticlassAUROC,
        C.MulticlassConfusionMatrix,
        C.MulticlassPrecision,
        C.MulticlassCalibrationError,
    )
    found = []
    for kind in kinds:
        metric = kind(num_classes=4)
        metric.update(scores[:10], labels[:10])
        metric.update(scores[10:], labels[10:])
        found.append(metric.compute())
    return found


def try_regression():
    x, y = torch.randn(30), torch.randn(30)
    kinds = (
        R.MeanSquaredError,
        R.MeanAbsoluteError,
        R.R2Score,
        R.PearsonCorrCoef,
        R.SpearmanCorrCoef,
        R.ExplainedVariance,
    )
    return [kind()(x, y) for kind in kinds]


def try_collection():
    metrics = torchmetrics.MetricCollection([C.BinaryAccuracy(), C.BinaryAUROC(), C.BinaryAveragePrecision()])
    return metrics(torch.rand(20), torch.randint(0, 2, (20,)))


def try_images():
    from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure

    x, y = torch.rand(2, 3, 24, 24), torch.rand(2, 3, 24, 24)
    return [
        StructuralSimilarityIndexMeasure(data_range=1.0)(x, y),
        PeakSignalNoiseRatio(data_range=1.0)(x, y),
    ]
