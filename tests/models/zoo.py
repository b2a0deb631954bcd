"""Small random-weight instances of real model classes: what the model tests train for a step.

Each builder returns a module in float32 and a function that takes the module and returns a scalar loss.
Inputs are made with a fixed seed; floating inputs are cast to the module's dtype by the loss itself, so that
one builder serves float32 and bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

Loss = Callable[[nn.Module], torch.Tensor]
Builder = Callable[[], tuple[nn.Module, Loss]]


def _dtype(module: nn.Module) -> torch.dtype:
    return next(module.parameters()).dtype


def _tokens(vocabulary: int, batch: int = 2, length: int = 12) -> torch.Tensor:
    return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(7))


def _noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(8))


def llama() -> tuple[nn.Module, Loss]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        use_cache=False,
    )
    ids = _tokens(128)
    return LlamaForCausalLM(config), lambda m: m(input_ids=ids, labels=ids).loss


def mixtral() -> tuple[nn.Module, Loss]:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=64,
        use_cache=False,
    )
    ids = _tokens(128)
    return MixtralForCausalLM(config), lambda m: m(input_ids=ids, labels=ids).loss


def bert() -> tuple[nn.Module, Loss]:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=128,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    ids = _tokens(128)
    return BertForMaskedLM(config), lambda m: m(input_ids=ids, labels=ids).loss


def t5() -> tuple[nn.Module, Loss]:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=128,
        d_model=64,
        d_kv=16,
        d_ff=96,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        use_cache=False,
    )
    ids = _tokens(128)
    return T5ForConditionalGeneration(config), lambda m: m(input_ids=ids, labels=ids).loss


def vit() -> tuple[nn.Module, Loss]:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        image_size=32,
        patch_size=8,
        num_labels=10,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    pixels, labels = _noise(2, 3, 32, 32), torch.tensor([3, 7])
    return ViTForImageClassification(config), lambda m: m(pixel_values=pixels.to(_dtype(m)), labels=labels).loss


def whisper() -> tuple[nn.Module, Loss]:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=128,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        num_mel_bins=16,
        max_source_positions=20,
        max_target_positions=32,
        dropout=0.0,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        use_cache=False,
    )
    features, ids = _noise(2, 16, 40), _tokens(128)
    return WhisperForConditionalGeneration(config), lambda m: m(input_features=features.to(_dtype(m)), labels=ids).loss


def mamba() -> tuple[nn.Module, Loss]:
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=128, hidden_size=32, state_size=8, num_hidden_layers=2, use_cache=False)
    ids = _tokens(128, length=6)
    return MambaForCausalLM(config), lambda m: m(input_ids=ids, labels=ids).loss


def wan() -> tuple[nn.Module, Loss]:
    from diffusers import WanTransformer3DModel

    module = WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=4,
        out_channels=4,
        text_dim=16,
        freq_dim=32,
        ffn_dim=32,
        num_layers=2,
        rope_max_seq_len=32,
    )
    latents, text, target = _noise(1, 4, 2, 8, 8), _noise(1, 5, 16), _noise(1, 4, 2, 8, 8)
    timestep = torch.tensor([500.0])

    def loss(m: nn.Module) -> torch.Tensor:
        dtype = _dtype(m)
        prediction = m(latents.to(dtype), timestep, text.to(dtype), return_dict=False)[0]
        return F.mse_loss(prediction.float(), target)

    return module, loss


def unet() -> tuple[nn.Module, Loss]:
    from diffusers import UNet2DConditionModel

    module = UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(16, 32),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=8,
        norm_num_groups=8,
    )
    latents, text, target = _noise(1, 4, 8, 8), _noise(1, 5, 16), _noise(1, 4, 8, 8)
    timestep = torch.tensor([500])

    def loss(m: nn.Module) -> torch.Tensor:
        dtype = _dtype(m)
        prediction = m(latents.to(dtype), timestep, encoder_hidden_states=text.to(dtype), return_dict=False)[0]
        return F.mse_loss(prediction.float(), target)

    return module, loss


class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.down = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        y += self.down(x)
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    """The shape of torchvision's ResNet-50 (stem, bottleneck stages, in-place ReLUs, pooled head), narrower."""

    def __init__(self, width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.stages = nn.Sequential(
            _Bottleneck(width, width, 1), _Bottleneck(4 * width, 2 * width, 2), _Bottleneck(8 * width, 4 * width, 2)
        )
        self.head = nn.Linear(16 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(F.relu(self.bn(self.stem(x)), inplace=True))
        x = F.adaptive_avg_pool2d(self.stages(x), 1)
        return self.head(torch.flatten(x, 1))


def resnet() -> tuple[nn.Module, Loss]:
    images, labels = _noise(4, 3, 32, 32), torch.tensor([1, 5, 2, 9])
    return ResNet(), lambda m: F.cross_entropy(m(images.to(_dtype(m))).float(), labels)


ZOO: dict[str, Builder] = {
    "llama": llama,
    "mixtral": mixtral,
    "bert": bert,
    "t5": t5,
    "vit": vit,
    "whisper": whisper,
    "mamba": mamba,
    "wan": wan,
    "unet": unet,
    "resnet": resnet,
}
