# ruff: noqa: E501 -- a row a line
"""Recorded answers: a row is a call, and after `=` its answer. `tests/mutants/record.py` writes the numbers."""

ANSWERS = """
AdaptiveAvgPool1d(4) | x2,3,7 = 0.07355368 0.5447715
AdaptiveAvgPool2d((2, None)) | x1,2,5,4 = -1.14125 -0.1171887
AdaptiveAvgPool3d((1, 2, 3)) | x1,2,4,5,6 = 0.006747631 0.002414621
AdaptiveMaxPool1d(3, return_indices=True) | x2,2,7 = -6.270544 -0.5359861
AdaptiveMaxPool2d((2, 3), return_indices=True) | x1,2,5,7 = -39.56459 -1.50414
AdaptiveMaxPool3d((1, 2, 3), return_indices=True) | x1,1,4,5,6 = -437.4112 0.9758983
AdaptiveLogSoftmaxWithLoss(6, 10, (3, 7), div_value=2.0, head_bias=True) | x8,6 c10:8 = -4.252515 -11.16687
AlphaDropout(0.0) | x3,4 = -4.466775 4.698441
AvgPool1d(3, 2, padding=1) | x1,2,6 = -0.05751346 1.079093
AvgPool1d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False) | x1,2,8 = -0.1074317 0.4308815
AvgPool2d(2, padding=1) | x1,2,4,4 = -0.1883285 -0.5433236
AvgPool2d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False) | x1,2,6,8 = 1.374319 -0.571586
AvgPool2d((2, 1), divisor_override=3) | x1,2,4,4 = 0.4303688 -0.4652156
AvgPool3d(2, padding=1) | x1,1,4,3,4 = -0.788314 -0.2046065
AvgPool3d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False) | x1,1,4,6,6 = 9.317866 -1.816717
AvgPool3d(2, divisor_override=3) | x1,2,4,4,4 = 0.2346613 -2.944636
BCELoss(weight=[0.5, 2.0, 1.0, 3.0], reduction='sum') | p3,4 p3,4 = 6.360033 0
BCEWithLogitsLoss(weight=[0.5, 2.0, 1.0, 3.0], reduction='none', pos_weight=[2.0, 1.0, 0.5, 3.0]) | x3,4 p3,4 = 0.3065816 -0.5169653
BatchNorm1d(3, eps=0.1, momentum=0.3) | x4,3,5 = -2.194794 -15.15515
BatchNorm1d(3, momentum=None, affine=False) | x4,3 = -4.430558 2.719942
BatchNorm2d(3, eps=0.1, momentum=0.3) | x2,3,4,5 = -3.187867 -24.83218
BatchNorm2d(2, track_running_stats=False) | x2,2,3,3 = 6.855572 -3.478741
BatchNorm3d(2, eps=0.1, momentum=0.3) | x2,2,3,3,3 = 3.404042 -13.70576
Bilinear(3, 4, 2, bias=True) | x5,3 x5,4 = 1.581836 7.147601
CELU(0.7) | x3,5 = -6.647046 4.347179
CTCLoss(blank=1, reduction='sum', zero_infinity=True) | l6,2,4 i2,3,0 i6,5 i2,1 = 6.797806 0.00288171
CTCLoss() | l6,2,4 i2,3,1 i6,5 i2,1 = 2.5842 -0.06172261
ChannelShuffle(3) | p1,6,2,2 = -2.651445 0
CircularPad1d((1, 2)) | x1,2,4 = -2.939757 -0.3997428
CircularPad2d((1, 2, 0, 1)) | x1,2,3,4 = -7.316785 1.568673
CircularPad3d((1, 0, 2, 1, 0, 1)) | x1,1,3,3,3 = -3.005469 -3.992334
ConstantPad1d((1, 2), 0.7) | x1,2,4 = 1.83867 1.159268
ConstantPad2d((1, 2, 0, 1), 0.7) | x1,2,3,4 = -8.52529 2.173592
ConstantPad3d((1, 0, 2, 1, 0, 1), 0.7) | x1,1,3,3,3 = 2.735654 -9.431639
Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2, padding_mode='circular') | x2,4,9 = -0.4020131 -14.26793
Conv2d(4, 2, (2, 3), stride=(1, 2), padding='valid', dilation=(2, 1)) | x1,4,5,6 = 2.740616 41.43247
Conv3d(2, 4, (2, 3, 1), stride=(1, 2, 1), padding=(1, 0, 1), dilation=(1, 2, 1), groups=2, bias=False) | x1,2,4,6,3 = 1.648599 -0.6175205
Conv3d(1, 2, 3, padding=1, padding_mode='replicate') | x1,1,3,4,3 = 23.83645 67.81209
ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2) | x2,4,5 = -0.6196899 -83.15599
ConvTranspose2d(4, 2, (2, 3), stride=(1, 2), padding=(0, 1), output_padding=(0, 1), groups=2) | x1,4,4,3 = -2.006153 -12.50101
ConvTranspose3d(2, 2, 2, stride=2, padding=1, output_padding=1, bias=False) | x1,2,3,2,3 = 6.904903 -33.11255
CosineEmbeddingLoss(margin=0.2, reduction='sum') | x4,3 y4,3 s4 = 0.6145211 0.05255067
CosineSimilarity(dim=0, eps=2.0) | x4,3 y4,3 = -0.8115507 -0.2276996
CrossEntropyLoss(weight=[0.5, 2.0, 1.0, 3.0, 0.7], ignore_index=2, reduction='sum', label_smoothing=0.2) | x6,5 c5:6 = 13.96552 0.9157373
CrossEntropyLoss(weight=[0.5, 2.0, 1.0, 3.0, 0.7], reduction='none') | x2,5,3 c5:2,3 = -9.04649 0.2252918
CrossEntropyLoss(label_smoothing=0.1) | x4,5 p4,5 = 3.138893 0.1624035
CrossMapLRN2d(3, alpha=0.5, beta=0.6, k=2) | x1,5,2,2 = -0.4879402 4.896292
Dropout(0.0) | x3,4 = -4.466775 4.698441
ELU(0.7) | x3,5 = -6.548712 4.162512
Embedding(7, 3, padding_idx=2, max_norm=0.9, norm_type=3.0) | c7:2,3 = 1.43942 1.986832
Embedding(7, 3, scale_grad_by_freq=True) | c5:3,3 = 0.8233894 1.963781
EmbeddingBag(7, 3, mode='sum', max_norm=0.9, norm_type=3.0, padding_idx=2, include_last_offset=True) | c7:6 i0,2,6 | per_sample_weights=p6 = 0.1141745 -0.8509454
EmbeddingBag(7, 3, mode='max') | c7:2,3 = -1.197463 -1.642095
EmbeddingBag(7, 3, mode='sum', scale_grad_by_freq=True) | c5:3,3 = -0.1157555 -2.635327
FeatureAlphaDropout(0.0) | x2,3,2 = -4.466775 4.698441
Flatten(1, 2) | x2,3,2,2 = 1.2206 11.66558
Fold((4, 5), (2, 3), dilation=1, padding=1, stride=2) | x1,12,9 = -19.39235 0.6300003
Fold((4, 4), 2) | x1,8,9 = 41.00222 0.4967282
FractionalMaxPool2d(2, output_ratio=(0.6, 0.5), return_indices=True, _random_samples=[[[0.3, 0.8], [0.6, 0.1]]]) | x1,2,6,7 = -28.83102 -1.19675
FractionalMaxPool3d(2, output_size=(2, 3, 2), return_indices=True, _random_samples=[[[0.3, 0.8, 0.5]]]) | x1,1,5,6,5 = -287.6564 2.458629
GELU() | x3,5 = -5.522214 3.106319
GELU('tanh') | x3,5 = -5.521515 3.106305
GLU(0) | x4,3 = 2.00523 0.7779066
GRU(3, 4, num_layers=2, batch_first=True, bidirectional=True) | x2,5,3 x4,2,4 = 1.067373 10.78322
GRU(3, 4, bias=False) | x5,2,3 = 1.043161 0.2257467
GRUCell(3, 4) | x2,3 x2,4 = 0.2259993 1.909191
GRUCell(3, 4, bias=False) | x2,3 = 0.02478026 0.6745798
GaussianNLLLoss(full=True, eps=0.3, reduction='sum') | x4,3 y4,3 p4,3 = 19.67848 -2.077751
GroupNorm(2, 6, eps=0.1) | x2,6,3 = 9.934455 12.49687
GroupNorm(3, 6, affine=False) | x2,6,2,2 = -2.853212 11.15605
Hardshrink(0.4) | x3,5 = -7.234832 4.975808
Hardsigmoid() | w3,5 = -0.6677254 0.5575389
Hardswish() | w3,5 = -1.886105 6.215899
Hardtanh(-0.4, 0.6) | x3,5 = -3.507937 1.946681
HingeEmbeddingLoss(margin=1.5, reduction='sum') | x4,3 s4,3 = 4.388915 -0.4180385
HuberLoss(reduction='sum', delta=0.5) | x4,3 y4,3 = 3.661296 0.2842159
InstanceNorm1d(3, eps=0.1, momentum=0.3, affine=True, track_running_stats=True) | x2,3,5 = 1.468624 -3.206419
InstanceNorm2d(3, eps=0.1, momentum=0.3, affine=True, track_running_stats=True) | x2,3,4,3 = 11.48899 -1.074033
InstanceNorm3d(2, eps=0.1, momentum=0.3, affine=True, track_running_stats=True) | x2,2,3,2,3 = 2.258047 -10.94194
InstanceNorm2d(3) | x2,3,4,3 = -5.950647 22.72629
KLDivLoss(reduction='batchmean') | l3,4 p3,4 = 1.674524 0.4607638
KLDivLoss(reduction='none', log_target=True) | l3,4 l3,4 = 0 -1.060993
L1Loss(reduction='sum') | x3,4 y3,4 = 9.347803 -0.07158485
LPPool1d(4, 2, stride=1, ceil_mode=True) | x1,2,7 = -3.829804 1.746238
LPPool2d(4, 2, stride=3, ceil_mode=True) | x1,2,6,7 = -4.566096 1.59719
LPPool3d(4, 2, stride=3, ceil_mode=True) | x1,1,4,5,4 = -1.520544 -0.6274044
LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True, proj_size=2) | x2,5,3 = 0.244903 -4.296048
LSTM(3, 4, bias=False) | x5,2,3 = 0.9428235 0.581412
LSTMCell(3, 4) | x2,3 = -0.1575309 0.4195782
LSTMCell(3, 4, bias=False) | x2,3 = -0.1229143 0.4485553
LayerNorm((3, 4), eps=0.1) | x2,3,4 = -1.276557 -1.753919
LayerNorm(4, elementwise_affine=False) | x2,3,4 = 0.9068193 0.3970491
LayerNorm(4, bias=False) | x2,3,4 = -0.1656897 -1.972381
LeakyReLU(0.3) | x3,5 = -6.406156 3.969609
Linear(3, 4, bias=False) | x2,3 = -0.01704159 1.74453
LinearCrossEntropyLoss(3, 5, bias=True, weight=[0.5, 2.0, 1.0, 3.0, 0.7], ignore_index=2, reduction='sum', label_smoothing=0.2) | x6,3 c5:6 = 11.33914 -3.198863
LocalResponseNorm(3, alpha=0.5, beta=0.6, k=2) | x1,5,2,2 = -0.5523247 4.925763
LogSigmoid() | w3,5 = 10.83522 1.51989
LogSoftmax(1) | x2,3,4 = 5.092509 8.396993
MSELoss(reduction='sum') | x3,4 y3,4 = 14.6834 4.396799
MSELoss() | x3,4 y3,4 = 1.223616 0.3663999
MarginRankingLoss(margin=0.3, reduction='sum') | x6 y6 s6 = 7.403007 0.9357752
MaxPool1d(3, stride=2, padding=1, dilation=2, return_indices=True, ceil_mode=True) | x1,2,10 = 21.86952 -0.8703953
MaxPool2d((2, 3), padding=(0, 1)) | x1,2,4,6 = -0.9997494 -0.6814288
MaxPool2d(3, stride=2, padding=1, dilation=2, return_indices=True, ceil_mode=True) | x1,2,8,9 = -561.6405 -1.018835
MaxPool3d(2, stride=1, padding=1, dilation=2, return_indices=True) | x1,1,4,5,4 = -66.55285 -3.28971
MaxPool3d(2, ceil_mode=True) | x1,1,3,3,3 = -0.54225 2.514879
MaxUnpool1d(2) | x1,2,3 n1:1,2,3 | output_size=(7,) = 1.975942 -0.5467715
MaxUnpool2d(2) | x1,2,2,3 n2:1,2,2,3 | output_size=(5,7) = 10.72182 -0.9307406
MaxUnpool3d(2) | x1,1,2,2,2 n7:1,1,2,2,2 | output_size=(5,4,5) = 2.316769 -0.3021121
MaxUnpool1d(3, stride=2, padding=1) | x1,1,3 n2:1,1,3 = 1.1538 0.3912078
Mish() | w3,5 = -1.65004 5.462794
MultiLabelMarginLoss(reduction='sum') | x3,4 c4:3,4 = 1.539618 -0.1793913
MultiLabelSoftMarginLoss(weight=[0.5, 2.0, 1.0, 3.0], reduction='sum') | x3,4 p3,4 = 3.155151 -0.01918094
MultiMarginLoss(p=2, margin=0.7, weight=[0.5, 2.0, 1.0, 3.0], reduction='sum') | x3,4 c4:3 = 8.934465 3.846059
MultiheadAttention(8, 2, bias=True, add_bias_kv=True, add_zero_attn=True, kdim=6, vdim=4, batch_first=True) | x2,3,8 x2,5,6 x2,5,4 = 2.676865 7.239839
MultiheadAttention(8, 2, bias=False) | x3,2,8 x5,2,8 x5,2,8 | average_attn_weights=False attn_mask=x3,5 = 5.027607 -1.255304
MultiheadAttention(8, 2) | x3,2,8 x3,2,8 x3,2,8 | need_weights=False = -39.49131 -0.8658094
NLLLoss(weight=[0.5, 2.0, 1.0, 3.0, 0.7], ignore_index=2, reduction='sum') | l6,5 c5:6 = 12.29772 1.76089
NLLLoss(reduction='none') | l2,5,3 c5:2,3 = -4.603984 0.5475914
PReLU(5, init=0.4) | x3,5 = -5.101638 2.247741
PairwiseDistance(p=3.0, eps=0.1, keepdim=True) | x3,4 y3,4 = -2.351061 0.47757
PixelShuffle(2) | x1,8,2,3 = 3.323659 -3.344876
PixelUnshuffle(2) | x1,2,4,6 = -7.74008 -3.344876
PoissonNLLLoss(log_input=False, full=True, eps=0.1, reduction='sum') | p3,4 c5:3,4 = 25.93273 0
PoissonNLLLoss(full=True) | x3,4 c5:3,4 = 2.096396 0.009500775
RMSNorm((3, 4), eps=0.1) | x2,3,4 = -1.324587 1.331324
RMSNorm(4, elementwise_affine=False) | x2,3,4 = 1.14528 6.696501
RNN(3, 4, num_layers=2, nonlinearity='relu', batch_first=True, bidirectional=True) | x2,5,3 = 2.252522 10.45565
RNN(3, 4, bias=False) | x5,2,3 x1,2,4 = 0.5263548 2.289569
RNNCell(3, 4, nonlinearity='relu') | x2,3 = -0.4355664 4.008208
RNNCell(3, 4, bias=False) | x2,3 = 0.007543898 2.983509
RReLU(0.3, 0.3) | x3,5 = -6.406156 3.969609
ReLU() | x3,5 = -6.024687 2.704089
ReLU6() | w3,5 = -2.140278 5.239246
ReflectionPad1d((1, 2)) | x1,2,4 = 4.691739 0.5769915
ReflectionPad2d((1, 2, 0, 1)) | x1,2,3,4 = -9.272902 6.631579
ReflectionPad3d((1, 0, 2, 1, 0, 2)) | x1,1,3,3,3 = 3.735439 -17.9584
ReplicationPad1d((1, 2)) | x1,2,4 = 11.84668 1.764402
ReplicationPad2d((1, 2, 0, 1)) | x1,2,3,4 = -2.610929 3.548736
ReplicationPad3d((1, 0, 2, 1, 0, 2)) | x1,1,3,3,3 = 0.8324378 -7.28774
SELU() | x3,5 = -7.64627 6.50412
SiLU() | x3,5 = -4.988025 3.196824
Sigmoid() | x3,5 = -3.421043 1.378565
SmoothL1Loss(reduction='sum', beta=0.5) | x4,3 y4,3 = 7.322592 0.5684317
SoftMarginLoss(reduction='sum') | x4,3 s4,3 = 8.337277 0.08884236
Softmax(1) | x2,3,4 = -0.7093782 1.923919
Softmax2d() | x2,3,2,2 = -0.7093782 1.923919
Softmin(0) | x3,4 = 0.3010375 -0.7255514
Softplus(2.0, 1.5) | w3,5 = -2.28749 5.443072
Softshrink(0.4) | x3,5 = -4.807737 4.975808
Softsign() | x3,5 = -3.291275 2.292461
Tanh() | w3,5 = 2.992038 0.6749108
Tanhshrink() | x3,5 = -2.364517 3.371195
Threshold(0.3, 1.7) | x3,5 = -3.523898 2.704089
Threshold(1.0, 9.0) | n1:4 = -15.63787 0
Transformer(8, 2, 1, 1, 16, 0.0, 'gelu', layer_norm_eps=0.1, batch_first=True) | x2,4,8 x2,3,8 = -0.6665123 -2.489412
TransformerDecoderLayer(8, 2, 16, 0.0, norm_first=True) | x3,2,8 x4,2,8 = 4.419981 -15.12811
TransformerDecoderLayer(8, 2, 16, 0.0, 'gelu', layer_norm_eps=0.1, batch_first=True) | x2,3,8 x2,4,8 = -0.01092603 1.187959
TransformerEncoderLayer(8, 2, 16, 0.0, 'gelu', layer_norm_eps=0.1, batch_first=True) | x2,4,8 = -0.3938631 -3.270747
TransformerEncoderLayer(8, 2, 16, 0.0, norm_first=True, bias=False) | x4,2,8 | src_mask=x4,4 = -1.530633 31.283
TripletMarginLoss(margin=0.7, p=3.0, eps=0.1, swap=True, reduction='sum') | x4,3 y4,3 w4,3 = 0 0
TripletMarginWithDistanceLoss(margin=0.7, swap=True, reduction='sum') | x4,3 y4,3 w4,3 = 0 0
Unflatten(1, (2, 3)) | x2,6,2 = 1.2206 11.66558
Unfold((2, 3), dilation=(1, 2), padding=1, stride=2) | x1,2,5,6 = -0.4891305 -1.230553
Upsample(scale_factor=(1.5, 2), mode='bilinear') | x1,2,4,3 = -2.572889 -3.811669
Upsample((7, 5), mode='bicubic', align_corners=True) | x1,2,4,3 = -3.005583 -4.519753
Upsample(scale_factor=2, mode='trilinear', align_corners=True) | x1,1,2,3,2 = 0.5917482 1.144067
Upsample(scale_factor=1.7, mode='linear', recompute_scale_factor=True) | x1,2,5 = 18.65071 1.098251
UpsamplingBilinear2d((5, 7)) | x1,2,3,4 = 1.741691 -5.412279
UpsamplingNearest2d(scale_factor=(2.0, 1.5)) | x1,2,3,4 = -7.419842 -7.482431
ZeroPad1d((1, 2)) | x1,2,4 = 2.976608 1.159268
ZeroPad2d((1, 2, 0, 1)) | x1,2,3,4 = -4.570956 2.173592
ZeroPad3d((1, 0, 2, 1, 0, 1)) | x1,1,3,3,3 = 3.117932 -9.431639
affine_grid((1, 2, 3, 4), align_corners=True) | x1,2,3 = 1.237531 1.212204
grid_sample(mode='bilinear', padding_mode='border', align_corners=True) | x1,2,4,5 y1,3,3,2 = -1.960688 -5.997225
grid_sample(mode='bicubic', padding_mode='reflection', align_corners=False) | x1,2,4,5 y1,3,3,2 = -2.456482 -19.38914
grid_sample(mode='nearest', padding_mode='zeros', align_corners=False) | x1,2,4,5 y1,3,3,2 = -1.195524 -1.77528
interpolate(size=(3, 2), mode='area') | x1,2,7,5 = 0.6740676 0.02955676
interpolate(size=(3, 4), mode='bilinear', antialias=True) | x1,2,7,6 = 1.975239 0.5390406
interpolate(size=(5, 4), mode='nearest-exact') | x1,2,3,3 = 6.335645 -1.142636
normalize(p=3.0, dim=0, eps=2.0) | x3,4 = -0.5095459 2.349221
one_hot(7) | c5:2,3 = -1.580447 0
pad((1, 2, 0, 1), mode='reflect') | x1,2,3,4 = 1.023189 6.631579
pdist(3.0) | x4,3 = -4.319763 1.511941
scaled_dot_product_attention(scale=0.3) | x1,2,3,4 x1,2,5,4 y1,2,5,4 | attn_mask=x3,5 = -0.07152779 -1.096083
scaled_dot_product_attention(is_causal=True) | x1,2,5,4 y1,2,5,4 x1,2,5,4 = 1.66153 -10.52889
"""
"""Layers of torch.nn and functions of torch.nn.functional, tensors that they get, by words, further arguments of a
layer's call; the sum of the results and that of the gradients."""

MOVES = """
Adadelta(lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1, maximize=True) = -3.355604
Adafactor(lr=0.1, beta2_decay=-0.5, eps=(1e-5, 0.1), d=1.5, weight_decay=0.1, maximize=True) = -2.185265
Adafactor() = -2.577025
Adagrad(lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.2, eps=0.1, maximize=True) = -3.416288
Adam(lr=0.1, betas=(0.8, 0.9), eps=0.01, weight_decay=0.1, maximize=True) = -4.220279
Adam(lr=0.1, betas=(0.5, 0.6), amsgrad=True) = -1.482288
AdamW(lr=0.1, betas=(0.8, 0.9), eps=0.01, weight_decay=0.1, amsgrad=True) = -1.247861
Adamax(lr=0.1, betas=(0.8, 0.9), eps=0.01, weight_decay=0.1, maximize=True) = -3.919175
ASGD(lr=0.01, lambd=0.1, alpha=0.5, t0=3, weight_decay=0.1, maximize=True, foreach=False) = -2.895841
LBFGS(lr=0.3, max_iter=3, max_eval=4, tolerance_grad=1e-3, tolerance_change=1e-2, history_size=2) = 0.4544603
LBFGS(line_search_fn='strong_wolfe', max_iter=4) = 0.44606
NAdam(lr=0.1, betas=(0.8, 0.9), eps=0.01, weight_decay=0.1, momentum_decay=0.1, maximize=True) = -4.353773
NAdam(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True) = -1.561733
RAdam(lr=0.03, betas=(0.8, 0.9), eps=0.01, weight_decay=0.1, maximize=True) = -3.566513
RAdam(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True) = -0.8636215
RMSprop(lr=0.1, alpha=0.9, eps=0.01, weight_decay=0.1, momentum=0.5, centered=True, maximize=True) = -11.52144
Rprop(lr=0.1, etas=(0.4, 1.5), step_sizes=(0.08, 0.2), maximize=True) = -5.498766
SGD(lr=0.02, momentum=0.9, dampening=0.2, weight_decay=0.1, maximize=True) = -5.413749
SGD(lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True) = 0.6673939
SparseAdam(lr=0.1, betas=(0.8, 0.9), eps=0.01, maximize=True) = -4.206119
"""
"""Optimizers of torch.optim; the sum of the weights after some steps."""

RATES = """
ConstantLR(factor=0.3, total_iters=4) = -1.990214
CosineAnnealingLR(5, eta_min=0.2) = -2.352645
CosineAnnealingWarmRestarts(2, T_mult=3, eta_min=0.2) = -1.530464
CyclicLR(0.1, 0.9, step_size_up=3, step_size_down=2, mode='exp_range', gamma=0.8, base_momentum=0.3, max_momentum=0.7) = -0.9216559
CyclicLR(0.1, 0.9, step_size_up=2, mode='triangular2', cycle_momentum=False) = -2.824277
ExponentialLR(0.8) = -1.638198
LinearLR(start_factor=0.2, end_factor=0.7, total_iters=4) = -1.634514
MultiStepLR([2, 7], gamma=0.3) = -2.161007
OneCycleLR(2.0, epochs=3, steps_per_epoch=5, pct_start=0.4, anneal_strategy='linear', base_momentum=0.3, max_momentum=0.7, div_factor=5.0, final_div_factor=20.0, three_phase=True) = -1.740252
OneCycleLR(2.0, total_steps=14) = -0.7108391
PolynomialLR(total_iters=7, power=1.7) = -1.578353
ReduceLROnPlateau(mode='max', factor=0.3, patience=1, threshold=0.2, threshold_mode='abs', cooldown=1, min_lr=0.01, eps=1e-3) = -2.317416
ReduceLROnPlateau(patience=0, threshold=0.3) = -0.726405
StepLR(3, gamma=0.4) = -2.202887
"""
"""Schedules of torch.optim.lr_scheduler; the sum of the rates and momenta."""
