"""Recorded answers: a row is a call, and after `=` its answer. `tests/mutants/record.py` writes the numbers."""

from __future__ import annotations

ANSWERS = """
AdaptiveAvgPool1d(4) | x2,3,7 = -4.302467 0.5447715
AdaptiveAvgPool2d((2, None)) | x1,2,5,4 = -7.635664 -0.1171887
AdaptiveAvgPool3d((2, 2, 3)) | x1,1,3,5,4 = 17.24677 -0.9149593
AdaptiveMaxPool1d(3, return_indices=True) | x2,2,7 = -10.51992 -0.5359861
AdaptiveMaxPool2d((2, 3), return_indices=True) | x1,2,5,7 = -106.3388 -1.50414
AdaptiveMaxPool3d((1, 2, 3), return_indices=True) | x1,1,4,5,6 = 327.9538 0.9758983
AdaptiveLogSoftmaxWithLoss(6, 10, (3, 7), div_value=2.0, head_bias=True) | x8,6 c10:8 = -10.29508 -11.7343
AlphaDropout(0.0) | x3,4 = -0.4949047 4.698441
AvgPool1d(3, 2, padding=1) | x1,2,6 = -0.77432 1.079093
AvgPool1d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False) | x1,2,8 = -3.26091 0.4308815
AvgPool2d(2, padding=1) | x1,2,4,4 = -8.679929 -0.5433236
AvgPool2d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False) | x1,2,6,8 = -6.328951 -0.571586
AvgPool2d((2, 1), divisor_override=3) | x1,2,4,4 = -4.382328 -0.4652156
AvgPool3d(2, padding=1) | x1,1,4,3,4 = -7.699519 -0.2046065
AvgPool3d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False) | x1,1,4,6,6 = 18.52876 -1.816717
AvgPool3d(2, divisor_override=3) | x1,2,4,4,4 = -6.913332 -2.944636
BCELoss(weight=[0.5, 2.0, 1.0, 3.0], reduction='sum') | p3,4 p3,4 = 6.360033 0
BCEWithLogitsLoss(weight=[0.5, 2.0, 1.0, 3.0], reduction='none', pos_weight=[2.0, 1.0, 0.5, 3.0]) | \
x3,4 p3,4 = -5.495778 -0.5169653
BatchNorm1d(3, track_running_stats=False) | x4,3 = 8.063425 -5.728118
BatchNorm1d(3, eps=0.1, momentum=0.3) | x4,3,5 = -20.40928 -15.15515
BatchNorm1d(3, momentum=None, affine=False) | x4,3 = -1.085809 2.719942
BatchNorm1d(3, bias=False) | x4,3 = 6.315861 -2.443753
BatchNorm2d(3, affine=False) | x2,3,2,2 = -5.993616 6.62836
BatchNorm2d(3, eps=0.1, momentum=0.3) | x2,3,4,5 = -16.69305 -24.83218
BatchNorm2d(2, track_running_stats=False) | x2,2,3,3 = -3.331378 -3.478741
BatchNorm2d(3, bias=False) | x2,3,2,2 = -7.966622 -6.488568
BatchNorm3d(2, affine=False, track_running_stats=False) | x2,2,2,2,2 = -2.180292 6.79199
BatchNorm3d(2, eps=0.1, momentum=0.3) | x2,2,3,3,3 = -10.17975 -13.70576
BatchNorm3d(2, bias=False) | x2,2,2,2,2 = 4.158388 -4.20891
Bilinear(3, 4, 2, bias=False) | x5,3 x5,4 = -1.614611 4.84431
Bilinear(3, 4, 2, bias=True) | x5,3 x5,4 = -1.148229 7.147601
CELU(0.7) | x3,5 = 7.693558 4.347179
CTCLoss(zero_infinity=True) | l2,2,4 i2,2,2,3 i2,2 i3,1 = 0.4134146 -0.008104761
CTCLoss(blank=1, reduction='sum', zero_infinity=True) | l6,2,4 i2,3,0 i6,5 i2,1 = 6.797806 0.00288171
CTCLoss() | l6,2,4 i2,3,1 i6,5 i2,1 = 2.5842 -0.06172261
ChannelShuffle(3) | p1,6,2,2 = -6.970675 0
CircularPad1d((1, 2)) | x1,2,4 = 16.35894 -0.3997428
CircularPad2d((1, 2, 0, 1)) | x1,2,3,4 = -1.410109 1.568673
CircularPad3d((1, 0, 2, 1, 0, 1)) | x1,1,3,3,3 = 17.14503 -3.992334
ConstantPad1d((1, 2), 0.7) | x1,2,4 = 22.72827 1.159268
ConstantPad2d((1, 2, 0, 1), 0.7) | x1,2,3,4 = 0.1150504 2.173592
ConstantPad3d((1, 0, 2, 1, 0, 1), 0.7) | x1,1,3,3,3 = 20.12719 -9.431639
Conv1d(2, 3, 2, bias=False) | x1,2,5 = 14.68684 2.106858
Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2, padding_mode='circular') | x2,4,9 = -12.79668 -14.26793
Conv2d(4, 2, (2, 3), stride=(1, 2), padding='valid', dilation=(2, 1)) | x1,4,5,6 = 23.51469 41.43247
Conv3d(2, 4, (2, 3, 1), stride=(1, 2, 1), padding=(1, 0, 1), dilation=(1, 2, 1), groups=2, bias=False) | \
x1,2,4,6,3 = -2.924661 -0.6175205
Conv3d(1, 2, 3, padding=1, padding_mode='replicate') | x1,1,3,4,3 = -5.294535 67.81209
ConvTranspose1d(2, 3, 2, bias=False) | x1,2,5 = -18.05924 -17.89654
ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2) | x2,4,5 = -12.79894 -83.15599
ConvTranspose2d(4, 2, (2, 3), stride=(1, 2), padding=(0, 1), output_padding=(0, 1), groups=2) | \
x1,4,4,3 = -21.93296 -12.50101
ConvTranspose3d(2, 4, 2, groups=2, dilation=2) | x1,2,2,3,2 = -1.62793 7.338303
ConvTranspose3d(2, 2, 2, stride=2, padding=1, output_padding=1, bias=False) | x1,2,3,2,3 = 26.61343 -33.11255
CosineEmbeddingLoss(margin=0.2, reduction='sum') | x4,3 y4,3 s4 = 0.6145211 0.05255067
CosineSimilarity(dim=0, eps=2.0) | x4,3 y4,3 = -4.904351 -0.2276996
CrossEntropyLoss(weight=[0.5, 2.0, 1.0, 3.0, 0.7], ignore_index=2, reduction='sum', label_smoothing=0.2) | \
x6,5 c5:6 = 12.09445 0.6604719
CrossEntropyLoss(weight=[0.5, 2.0, 1.0, 3.0, 0.7], reduction='none') | x2,5,3 c5:2,3 = -2.440427 0.8263905
CrossEntropyLoss(label_smoothing=0.1) | x4,5 p4,5 = 3.138893 0.1624035
CrossMapLRN2d(3, alpha=0.5, beta=0.6, k=2) | x1,5,2,2 = -3.587853 4.896292
Dropout(0.0) | x3,4 = -0.4949047 4.698441
ELU(0.7) | x3,5 = 7.780638 4.162512
Embedding(7, 3, padding_idx=2, max_norm=0.5, norm_type=3.0) | c7:2,3 = -11.1018 -0.04311182
Embedding(7, 3, scale_grad_by_freq=True) | c5:3,3 = -4.839505 1.842414
EmbeddingBag(7, 3, mode='sum', max_norm=0.5, norm_type=3.0, padding_idx=2, include_last_offset=True) | c7:6 i0,2,6 | \
per_sample_weights=p6 = 0.2314572 -0.6543799
EmbeddingBag(7, 3, mode='max') | c7:2,3 = -0.1647597 1.813816
EmbeddingBag(7, 3, mode='sum', scale_grad_by_freq=True) | c5:3,3 = -2.106247 2.702108
FeatureAlphaDropout(0.0) | x2,3,2 = 4.025827 4.698441
Flatten(0, 1) | x2,3,2,2 = -4.83384 11.66558
Fold((5, 5), 2, dilation=2, padding=1, stride=2) | x1,8,9 = -10.13664 0.04771213
Fold((4, 4), 2) | x1,8,9 = 63.8074 0.4967282
FractionalMaxPool2d(2, output_size=(3, 4), _random_samples=[[[0.3, 0.8], [0.6, 0.1]]]) | x1,2,6,7 = -6.353992 -2.947083
FractionalMaxPool2d(2, output_ratio=(0.6, 0.5), return_indices=True, _random_samples=[[[0.3, 0.8], [0.6, 0.1]]]) | \
x1,2,6,7 = -7.989404 -1.19675
FractionalMaxPool3d(2, output_ratio=(0.5, 0.6, 0.5), _random_samples=[[[0.3, 0.8, 0.5]]]) | \
x1,1,5,6,5 = 3.852728 2.458629
FractionalMaxPool3d(2, output_size=(2, 3, 2), return_indices=True, _random_samples=[[[0.3, 0.8, 0.5]]]) | \
x1,1,5,6,5 = -738.3811 2.458629
GELU() | x3,5 = 8.74005 3.106319
GELU('tanh') | x2,2 = -2.837721 0.2760157
GLU(0) | x4,3 = 0.5356594 0.7779066
GRU(3, 4, num_layers=2, batch_first=True, bidirectional=True) | x2,5,3 x4,2,4 = 49.22215 9.421944
GRU(3, 4, bias=False) | x5,2,3 = -16.72584 2.573857
GRUCell(3, 4) | x2,3 x2,4 = -3.833117 1.909191
GRUCell(3, 4, bias=False) | x2,3 = -3.235493 0.6745798
GaussianNLLLoss(full=True, eps=0.3, reduction='sum') | x4,3 y4,3 p4,3 = 19.67848 -2.077751
GroupNorm(2, 6, eps=0.1) | x2,6,3 = -8.752693 12.49687
GroupNorm(3, 6, affine=False) | x2,6,2,2 = 19.42673 11.15605
GroupNorm(2, 4, bias=False) | x2,4,3 = -5.151957 -1.466375
Hardshrink(1.0) | x3,5 = 8.278922 3.550785
Hardsigmoid() | w3,5 = 13.63438 0.5575389
Hardswish() | w3,5 = 14.3654 6.215899
Hardtanh(-0.4, 0.6) | x3,5 = 10.51785 1.946681
HingeEmbeddingLoss(margin=1.5, reduction='sum') | x4,3 s4,3 = 4.388915 -0.4180385
HuberLoss(reduction='sum', delta=0.5) | x4,3 y4,3 = 3.661296 0.2842159
Identity() | x3,4 = -0.4949047 4.698441
InstanceNorm1d(3, eps=0.1, momentum=0.3, affine=True, track_running_stats=True) | x2,3,4 = -4.913751 -5.525787
InstanceNorm1d(3, affine=True, bias=False) | x2,3,4 = -3.869221 -2.054691
InstanceNorm2d(3, eps=0.1, momentum=0.3, affine=True, track_running_stats=True) | x2,3,4,3 = 1.267868 -1.074033
InstanceNorm2d(3, affine=True, bias=False) | x2,3,2,2 = -6.596653 -2.054691
InstanceNorm3d(2, eps=0.1, momentum=0.3, affine=True, track_running_stats=True) | x2,2,3,2,3 = -0.9043594 -10.94194
InstanceNorm2d(3) | x2,3,4,3 = -0.3302386 22.72629
InstanceNorm3d(2, affine=True, bias=False) | x2,2,2,2,2 = 3.966126 -3.900917
KLDivLoss(reduction='batchmean') | l3,4 p3,4 = 1.674524 0.4607638
KLDivLoss(reduction='none', log_target=True) | l3,4 l3,4 = 4.43303 -1.060993
L1Loss(reduction='sum') | x3,4 y3,4 = 9.347803 -0.07158485
LPPool1d(4, 2, stride=3, ceil_mode=True) | x1,2,7 = 0.3378156 2.401091
LPPool2d(4, 2, stride=3, ceil_mode=True) | x1,2,6,7 = 0.1076022 1.59719
LPPool3d(4, 2, stride=3, ceil_mode=True) | x1,1,4,5,4 = -5.295155 -0.6274044
LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True, proj_size=2) | x2,5,3 = -28.365 10.01834
LSTM(3, 4, bias=False) | x5,2,3 = -4.833589 -0.7973931
LSTM(3, 4) | x5,2,3 = -8.069721 -3.204906
LSTM(3, 4, bidirectional=True) | x5,2,3 = 37.14104 -8.38886
LSTMCell(3, 4) | x2,3 = -4.325692 -2.330247
LSTMCell(3, 4, bias=False) | x2,3 = -5.692664 -0.7327482
LayerNorm((3, 4), eps=0.1) | x2,3,4 = -2.670541 -1.753919
LayerNorm(4, elementwise_affine=False) | x2,3,4 = -5.024396 0.3970491
LayerNorm(4, bias=False) | x2,3,4 = -4.573088 -1.972381
LeakyReLU(0.3) | x3,5 = 7.90667 3.969609
Linear(3, 4, bias=False) | x2,3 = -3.216229 1.74453
LinearCrossEntropyLoss(3, 5, bias=True, weight=[0.5, 2.0, 1.0, 3.0, 0.7], ignore_index=2, reduction='sum', \
label_smoothing=0.2) | x6,3 c5:6 = 11.37272 -1.640644
LinearCrossEntropyLoss(3, 5, out_features=(2,)) | x4,3 c5:4,2 = 1.751305 -0.09289376
LocalResponseNorm(3, alpha=0.5, beta=0.6, k=2) | x1,5,2,2 = -3.63166 4.925763
LogSigmoid() | w3,5 = 26.08992 1.51989
LogSoftmax(1) | x2,3,4 = -7.778766 8.396993
MSELoss(reduction='sum') | x3,4 y3,4 = 14.6834 4.396799
MSELoss() | x3,4 y3,4 = 1.223616 0.3663999
MarginRankingLoss(margin=0.3, reduction='sum') | x6 y6 s6 = 7.403007 0.9357752
MaxPool1d(3, stride=2, padding=1, dilation=2, return_indices=True, ceil_mode=True) | x1,2,10 = 3.382076 -0.8703953
MaxPool2d((2, 3), padding=(0, 1)) | x1,2,4,6 = -5.498399 -0.6814288
MaxPool2d(3, stride=2, padding=1, dilation=2, return_indices=True, ceil_mode=True) | x1,2,8,9 = 537.0391 -1.018835
MaxPool3d(2, stride=1, padding=1, dilation=2, return_indices=True) | x1,1,4,5,4 = -280.2164 -3.28971
MaxPool3d(2, ceil_mode=True) | x1,1,3,3,3 = -7.25357 2.514879
MaxUnpool2d(3, stride=2, padding=1) | x1,1,2,3 n2:1,1,2,3 = 7.456875 1.45415
MaxUnpool3d(3, stride=2, padding=1) | x1,1,2,2,2 n3:1,1,2,2,2 = 13.29363 -0.3770801
MaxUnpool1d(2) | x1,2,3 n1:1,2,3 | output_size=(7,) = 17.01411 -0.5467715
MaxUnpool2d(2) | x1,2,2,3 n2:1,2,2,3 | output_size=(5,7) = -9.977573 -0.9307406
MaxUnpool3d(2) | x1,1,2,2,2 n7:1,1,2,2,2 | output_size=(5,4,5) = -6.467364 -0.3021121
MaxUnpool1d(3, stride=2, padding=1) | x1,1,3 n2:1,1,3 = 0.3035249 0.3912078
Mish() | w3,5 = 14.59442 5.462794
MultiLabelMarginLoss(reduction='sum') | x3,4 c4:3,4 = 1.539618 -0.1793913
MultiLabelSoftMarginLoss(weight=[0.5, 2.0, 1.0, 3.0], reduction='sum') | x3,4 p3,4 = 3.155151 -0.01918094
MultiMarginLoss(p=2, margin=0.7, weight=[0.5, 2.0, 1.0, 3.0], reduction='sum') | x3,4 c4:3 = 8.934465 3.846059
MultiheadAttention(8, 2, bias=True, add_bias_kv=True, add_zero_attn=True, kdim=6, vdim=4, batch_first=True) | \
x2,3,8 x2,5,6 x2,5,4 = -1.937082 6.659183
MultiheadAttention(8, 2, bias=False) | x3,2,8 x5,2,8 x5,2,8 | \
average_attn_weights=False attn_mask=x3,5 = 3.77691 -1.323988
MultiheadAttention(8, 2) | x3,2,8 x3,2,8 x3,2,8 | need_weights=False = -19.24799 -0.8658094
NLLLoss(weight=[0.5, 2.0, 1.0, 3.0, 0.7], ignore_index=2, reduction='sum') | l6,5 c5:6 = 10.74751 1.420168
NLLLoss(reduction='none') | l2,5,3 c5:2,3 = -0.7383386 1.39545
PReLU(5, init=0.4) | x3,5 = 9.975464 2.247741
PairwiseDistance(p=3.0, eps=0.1, keepdim=True) | x3,4 y3,4 = -8.795429 0.47757
PixelShuffle(2) | x1,8,2,3 = 6.687375 -3.344876
PixelUnshuffle(2) | x1,2,4,6 = 26.53769 -3.344876
PoissonNLLLoss(log_input=False, full=True, eps=0.1, reduction='sum') | p3,4 c5:3,4 = 28.7335 0
PoissonNLLLoss(full=True) | x3,4 c5:3,4 = 2.123569 -0.08316488
RMSNorm((3, 4), eps=0.1) | x2,3,4 = -2.451989 1.331324
RMSNorm(4, elementwise_affine=False) | x2,3,4 = -5.005037 6.696501
RNN(3, 4, num_layers=2, nonlinearity='relu', batch_first=True, bidirectional=True) | x2,5,3 = 50.98236 -0.564845
RNN(3, 4, bias=False) | x5,2,3 x1,2,4 = -16.01537 4.487947
RNNCell(3, 4, nonlinearity='relu') | x2,3 = -2.540605 4.008208
RNNCell(3, 4, bias=False) | x2,3 = -3.250925 2.983509
RReLU(0.3, 0.3) | x3,5 = 7.90667 3.969609
ReLU() | x3,5 = 8.24397 2.704089
ReLU6() | w3,5 = 14.0182 5.239246
ReflectionPad1d((1, 2)) | x1,2,4 = 27.03182 0.5769915
ReflectionPad2d((1, 2, 0, 1)) | x1,2,3,4 = 0.5078517 6.631579
ReflectionPad3d((1, 0, 2, 1, 0, 2)) | x1,1,3,3,3 = -11.5184 -17.9584
ReplicationPad1d((1, 2)) | x1,2,4 = 36.99561 1.764402
ReplicationPad2d((1, 2, 0, 1)) | x1,2,3,4 = 0.1989188 3.548736
ReplicationPad3d((1, 0, 2, 1, 0, 2)) | x1,1,3,3,3 = -13.44406 -7.28774
SELU() | x3,5 = 6.798491 6.50412
SiLU() | x3,5 = 9.233936 3.196824
Sigmoid() | x3,5 = 10.57215 1.378565
SmoothL1Loss(reduction='sum', beta=0.5) | x4,3 y4,3 = 7.322592 0.5684317
SoftMarginLoss(reduction='sum') | x4,3 s4,3 = 8.337277 0.08884236
Softmax(1) | x2,3,4 = -3.834243 1.923919
Softmax2d() | x2,3,2,2 = -6.550284 1.923919
Softmin(0) | x3,4 = 3.597658 -0.7255514
Softplus(2.0, 1.5) | w3,5 = 13.89507 5.443072
Softshrink(0.4) | x3,5 = 9.43972 4.975808
Softsign() | x3,5 = 10.7598 2.292461
Tanh() | w3,5 = 17.79684 0.6749108
Tanhshrink() | x3,5 = 11.67301 3.371195
Threshold(0.3, 1.7) | x3,5 = 10.47669 2.704089
Threshold(1.0, 9.0) | n1:4 = -21.31286 0
Transformer(8, 2, 1, 1, 16, 0.0, norm_first=True, bias=False) | x4,2,8 x3,2,8 = 24.6299 2.176911
Transformer(8, 2, 1, 1, 16, 0.0, 'gelu', layer_norm_eps=0.1, batch_first=True) | x2,4,8 x2,3,8 = 21.1849 -2.489412
TransformerDecoderLayer(8, 2, 16, 0.0, bias=False) | x3,2,8 x4,2,8 = 24.4301 10.10382
TransformerDecoderLayer(8, 2, 16, 0.0, norm_first=True) | x3,2,8 x4,2,8 = 20.56772 -15.12811
TransformerDecoderLayer(8, 2, 16, 0.0, 'gelu', layer_norm_eps=0.1, batch_first=True) | x2,3,8 x2,4,8 = 23.00165 1.187959
TransformerEncoderLayer(8, 2, 16, 0.0, 'gelu', layer_norm_eps=0.1, batch_first=True) | x2,4,8 = 27.16229 -3.270747
TransformerEncoderLayer(8, 2, 16, 0.0, norm_first=True, bias=False) | x4,2,8 | src_mask=x4,4 = 28.65583 31.283
TripletMarginLoss(margin=0.7, p=3.0, eps=0.1, swap=True, reduction='sum') | w4,3 x4,3 y4,3 = 10.58717 0.5624058
TripletMarginWithDistanceLoss(margin=0.7, swap=True, reduction='sum') | w4,3 x4,3 y4,3 = 11.83101 0.9832916
Unflatten(1, (2, 3)) | x2,6,2 = -7.745177 11.66558
Unfold((2, 3), dilation=(1, 2), padding=1, stride=2) | x1,2,5,6 = -4.119052 -1.230553
Upsample(scale_factor=(1.5, 2), mode='bilinear') | x1,2,4,3 = -0.04805444 -3.811669
Upsample((7, 5), mode='bicubic', align_corners=True) | x1,2,4,3 = -11.94106 -4.519753
Upsample(scale_factor=2, mode='trilinear', align_corners=True) | x1,1,2,3,2 = 27.89009 1.144067
Upsample(scale_factor=1.7, mode='linear', recompute_scale_factor=True) | x1,2,5 = 19.54216 1.098251
UpsamplingBilinear2d(scale_factor=2) | x1,2,3,4 = 24.68824 4.757595
UpsamplingBilinear2d((5, 7)) | x1,2,3,4 = -8.790191 -5.412279
UpsamplingNearest2d((5, 7)) | x1,2,3,4 = -10.68191 -6.241809
UpsamplingNearest2d(scale_factor=(2.0, 1.5)) | x1,2,3,4 = -0.6332445 -7.482431
ZeroPad1d((1, 2)) | x1,2,4 = 23.78995 1.159268
ZeroPad2d((1, 2, 0, 1)) | x1,2,3,4 = -0.3736903 2.173592
ZeroPad3d((1, 0, 2, 1, 0, 1)) | x1,1,3,3,3 = 28.43465 -9.431639
affine_grid((1, 2, 3, 4), align_corners=True) | x1,2,3 = -3.17419 1.212204
grid_sample(mode='bilinear', padding_mode='border', align_corners=True) | x1,2,4,5 y1,3,3,2 = -6.055558 -5.997225
grid_sample(mode='bicubic', padding_mode='reflection', align_corners=False) | x1,2,4,5 y1,3,3,2 = -6.551352 -19.38914
grid_sample(mode='nearest', padding_mode='zeros', align_corners=False) | x1,2,4,5 y1,3,3,2 = -5.290394 -1.77528
huber_loss(weight=[0.5, 2.0, 1.0, 3.0]) | x4 y4 = 1.106991 0.1339898
l1_loss(weight=[0.5, 2.0, 1.0, 3.0]) | x4 y4 = 0.9513369 0.08208809
mse_loss(weight=[0.5, 2.0, 1.0, 3.0]) | x4 y4 = 2.01418 -0.1124793
interpolate(size=(3, 2), mode='area') | x1,2,7,5 = 8.032672 0.02955676
interpolate(size=(3, 4), mode='bilinear', antialias=True) | x1,2,7,6 = -1.402429 0.5390406
interpolate(size=(5, 4), mode='nearest-exact') | x1,2,3,3 = -1.259107 -1.142636
normalize(p=3.0, dim=0, eps=1.6) | x3,4 = 5.000846 2.674227
one_hot(7) | c5:2,3 = -5.025081 0
pad((1, 2, 0, 1), mode='reflect') | x1,2,3,4 = -10.17709 6.631579
pdist(3.0) | x4,3 = -10.30133 1.511941
scaled_dot_product_attention(scale=0.3) | x1,2,3,4 x1,2,5,4 y1,2,5,4 | attn_mask=x3,5 = -3.449196 -1.096083
scaled_dot_product_attention(is_causal=True) | x1,2,3,4 x1,2,5,4 y1,2,5,4 = -4.286063 0.2710224
scaled_dot_product_attention(is_causal=True) | x1,2,5,4 y1,2,5,4 x1,2,5,4 = -5.933222 -10.52889
"""
"""Layers of torch.nn and functions of torch.nn.functional, tensors that they get, by words, further arguments of a
layer's call; the sum of the results and that of the gradients."""

MOVES = """
Adadelta(lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1, maximize=True) = -3.258818
Adafactor(lr=0.1, beta2_decay=-0.5, eps=(0.5, 3.0), d=1.5, weight_decay=0.1, maximize=True) = -4.734465
Adafactor() = -2.98896
Adagrad(lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.2, eps=0.1, maximize=True) = -3.412833
Adam(lr=0.1, betas=(0.8, 0.9), eps=0.01, weight_decay=0.1, maximize=True) = -4.162396
Adam(lr=0.1, betas=(0.5, 0.6), amsgrad=True) = -1.37542
AdamW(lr=0.1, betas=(0.8, 0.9), eps=0.01, weight_decay=0.1, amsgrad=True) = -1.125818
Adamax(lr=0.1, betas=(0.8, 0.9), eps=0.01, weight_decay=0.1, maximize=True) = -3.894723
ASGD(foreach=False) = -3.987995
ASGD(lr=0.02, lambd=0.1, alpha=0.5, t0=3, weight_decay=0.1, maximize=True, foreach=False) = -82.04583
LBFGS(lr=0.3, max_iter=3, max_eval=4, tolerance_grad=1e-3, tolerance_change=1e-2, history_size=2) = 0.4544603
LBFGS(lr=0.1, max_iter=2, max_eval=9) = -0.8452246
LBFGS(tolerance_grad=0.5, line_search_fn='strong_wolfe') = 0.2917987
NAdam(lr=0.1, betas=(0.8, 0.9), eps=0.01, weight_decay=0.1, momentum_decay=0.1, maximize=True) = -4.248983
NAdam(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True) = -1.499338
RAdam(lr=0.03, betas=(0.8, 0.9), eps=0.5, weight_decay=0.1, maximize=True) = -2.888969
RAdam(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True) = -0.735117
RMSprop(lr=0.1, alpha=0.9, eps=0.01, weight_decay=0.1, momentum=0.5, centered=True, maximize=True) = -11.14546
Rprop(lr=0.1, etas=(0.4, 1.5), step_sizes=(0.08, 0.2), maximize=True) = -5.482005
SGD(lr=0.02, momentum=0.9, dampening=0.2, weight_decay=0.1, maximize=True) = -603.0729
SGD(lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True) = 0.737701
SparseAdam(lr=0.1, betas=(0.8, 0.9), eps=0.01, maximize=True) = -4.151435
"""
"""Optimizers of torch.optim; the sum of the weights after some steps."""

RATES = """
ConstantLR() = -2.602417
ConstantLR(factor=0.3, total_iters=4) = -1.990214
CosineAnnealingLR(12) = -1.677549
CosineAnnealingLR(5, eta_min=0.2) = -2.352645
CosineAnnealingWarmRestarts(2) = -1.959774
CosineAnnealingWarmRestarts(2, T_mult=3, eta_min=0.2) = -1.530464
CyclicLR(0.1, 1.0, step_size_up=3) = -1.033381
CyclicLR(0.1, 0.9, step_size_up=3, step_size_down=2, mode='exp_range', gamma=0.8, base_momentum=0.3, \
max_momentum=0.7) = -0.9216559
CyclicLR(0.1, 0.9, step_size_up=2, mode='triangular2', cycle_momentum=False) = -2.824277
ExponentialLR(0.8) = -1.638198
LinearLR() = -2.012796
LinearLR(start_factor=0.2, end_factor=0.7, total_iters=4) = -1.634514
MultiStepLR([2, 5]) = -1.868734
MultiStepLR([2, 7], gamma=0.3) = -2.161007
OneCycleLR(2.0, epochs=3, steps_per_epoch=5, pct_start=0.4, anneal_strategy='linear', base_momentum=0.3, \
max_momentum=0.7, div_factor=5.0, final_div_factor=20.0, three_phase=True) = -1.740252
OneCycleLR(2.0, total_steps=14) = -0.7108391
PolynomialLR() = -1.501016
PolynomialLR(total_iters=7, power=1.7) = -1.578353
OneCycleLR(2.0, total_steps=14, cycle_momentum=False) = -0.5949568
ReduceLROnPlateau(factor=0.5, patience=0, threshold=0.1, cooldown=1, min_lr=0.2, eps=0.06) = -1.79685
ReduceLROnPlateau(threshold=0.04, threshold_mode='abs', patience=0, eps=0.01) = -2.510022
ReduceLROnPlateau(mode='max', patience=3) = -0.6373764
StepLR(3) = -2.565112
StepLR(3, gamma=0.4) = -2.202887
"""
"""Schedules of torch.optim.lr_scheduler; the sum of the rates and momenta."""
