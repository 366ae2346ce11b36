"""Tiny models with random weights of every model type that tigon.transformers knows, and a batch for each: the tests' and scripts/model_table.py's.

TYPES are the keys of Liger-Kernel's table of patches and what its users ask for beside them; ABSENT are those that the installed
transformers has not, with the reason in words.
"""
import torch
import transformers
from transformers import AutoConfig

VOCABULARY, IMAGE, LENGTH = 128, 100, 24  # the token that stands for a piece of an image
TEXT = {"vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MIXTURE = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
ROUTED = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "n_group": 2, "topk_group": 1, "n_shared_experts": 1,
          "first_k_dense_replace": 1}
SHARED = {"shared_expert_intermediate_size": 48}
LATENT = {"num_key_value_heads": 4, "q_lora_rank": 32, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16}
WINDOWS = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
DELTA = {"linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
         "layer_types": ["linear_attention", "full_attention"], "head_dim": 32}
SECTIONS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
PARTS = {"rope_parameters": {**SECTIONS, "partial_rotary_factor": 0.5}}

SIGHT = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2, "num_channels": 3, "image_size": 16,
         "patch_size": 4}
PATCHES = {"depth": 1, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "in_channels": 3, "patch_size": 4,
           "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 64}
FURTHER = [f"{kind}_{end}_token_id" for kind in ("image", "video", "vision") for end in ("start", "end")]
QWEN_3 = {**PATCHES, "num_position_embeddings": 16}


def _text(**more):
    return {**TEXT, **more}


def _composed(text, vision, **more):
    return {"text_config": {**TEXT, **text}, "vision_config": vision, **more}


def _of_patches(text, vision, **more):
    """Vision parts that take patches of any number of images in one row. Their further tokens are none that a batch has."""
    tokens = {name: IMAGE + i for i, name in enumerate(("image_token_id", "video_token_id", *FURTHER))}
    return _composed(text, vision, **{**tokens, **more})


GEMMA_4 = {**WINDOWS, "global_head_dim": 32, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": VOCABULARY}
MLLAMA = {"num_hidden_layers": 2, "cross_attention_layers": [1], "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
LLAMA_4 = {**MIXTURE, "num_experts_per_tok": 1, "intermediate_size_mlp": 96, "interleave_moe_layer_step": 2, "no_rope_layers": [1, 0],
           "layer_types": ["chunked_attention", "full_attention"], "attention_chunk_size": 8}

# model type: arguments of its configuration
TYPES = {
    "deepseek_v2": _text(**ROUTED, **LATENT, topk_method="group_limited_greedy"),
    "deepseek_v3": _text(**ROUTED, **LATENT, head_dim=8),
    "deepseek_v4": _text(**ROUTED, q_lora_rank=32, o_groups=2, o_lora_rank=16, index_n_heads=2, index_head_dim=16, sliding_window=8,
                         compress_rates={"compressed_sparse_attention": 4, "heavily_compressed_attention": 8}, hc_mult=2),
    "gemma": _text(),
    "gemma2": _text(**WINDOWS, query_pre_attn_scalar=16),
    "gemma3_text": _text(**WINDOWS, query_pre_attn_scalar=16),
    "gemma3": _composed({**WINDOWS, "query_pre_attn_scalar": 16}, SIGHT, image_token_index=IMAGE, mm_tokens_per_image=4,
                        boi_token_index=IMAGE + 1, eoi_token_index=IMAGE + 2),
    "gemma4_text": _text(**GEMMA_4),
    "gemma4": _composed(GEMMA_4, {**SIGHT, "head_dim": 16, "pooling_kernel_size": 2, "position_embedding_size": 16, "num_key_value_heads": 2},
                        audio_config=None, image_token_id=IMAGE, video_token_id=IMAGE + 1, audio_token_id=IMAGE + 2,
                        boi_token_id=IMAGE + 3, eoi_token_id=IMAGE + 4, boa_token_id=IMAGE + 5, eoa_token_index=IMAGE + 6),
    "glm4": _text(),
    "glm4v": _of_patches({"rope_parameters": SECTIONS}, {**PATCHES, "image_size": 16}),
    "glm4v_moe": _of_patches({**ROUTED, "rope_parameters": {**SECTIONS, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.5}},
                             {**PATCHES, "image_size": 16}),
    "gpt_oss": _text(**MIXTURE, **WINDOWS),
    "internvl": _composed({"model_type": "qwen2"}, {**SIGHT, "image_size": [16, 16], "patch_size": [4, 4]}, image_token_id=IMAGE,
                          image_seq_length=4),
    "llama": _text(),
    "llama4_text": _text(**LLAMA_4),
    "llama4": _composed(LLAMA_4, {**SIGHT, "intermediate_size": 128, "vision_output_dim": 48, "projector_input_dim": 48, "projector_output_dim": 48},
                        image_token_index=IMAGE, boi_token_index=IMAGE + 1, eoi_token_index=IMAGE + 2),
    "llava": _composed({"model_type": "llama"}, {**SIGHT, "model_type": "clip_vision_model", "num_hidden_layers": 2},
                       image_token_index=IMAGE, image_seq_length=16),
    "granite": _text(attention_multiplier=0.2, embedding_multiplier=2.0, logits_scaling=3.0, residual_multiplier=0.7),
    "mllama": _composed(MLLAMA, {**SIGHT, "attention_heads": 2, "num_global_layers": 1, "intermediate_layers_indices": [0], "max_num_tiles": 1,
                                 "vision_output_dim": 64, "supported_aspect_ratios": [[1, 1]]}, image_token_index=VOCABULARY),
    "mllama_text_model": _text(**MLLAMA),
    "ministral": _text(**WINDOWS),
    "mistral": _text(sliding_window=8),
    "mixtral": _text(**MIXTURE),
    "nemotron": _text(),
    "olmo2": _text(),
    "pixtral": SIGHT,
    "olmo3": _text(**WINDOWS),
    "qwen2": _text(),
    "qwen3": _text(),
    "qwen3_moe": _text(**MIXTURE),
    "qwen2_vl": _of_patches({"rope_parameters": SECTIONS}, {**PATCHES, "embed_dim": 32, "hidden_size": 64}),
    "qwen2_vl_text": _text(rope_parameters=SECTIONS),
    "qwen2_5_vl": _of_patches({"rope_parameters": SECTIONS}, {**PATCHES, "window_size": 16, "fullatt_block_indexes": [0]}),
    "qwen2_5_vl_text": _text(rope_parameters=SECTIONS),
    "qwen3_next": _text(**MIXTURE, **SHARED, **DELTA),
    "qwen3_5": _of_patches({**DELTA, **PARTS}, QWEN_3),
    "qwen3_5_text": _text(**DELTA, **PARTS),
    "qwen3_5_moe": _of_patches({**MIXTURE, **SHARED, **DELTA, **PARTS}, QWEN_3),
    "qwen3_5_moe_text": _text(**MIXTURE, **SHARED, **DELTA, **PARTS),
    "qwen3_vl": _of_patches({"rope_parameters": SECTIONS}, {**QWEN_3, "deepstack_visual_indexes": [0]}),
    "qwen3_vl_text": _text(rope_parameters=SECTIONS),
    "qwen3_vl_moe": _of_patches({**MIXTURE, "rope_parameters": SECTIONS}, {**QWEN_3, "deepstack_visual_indexes": [0]}),
    "qwen3_vl_moe_text": _text(**MIXTURE, rope_parameters=SECTIONS),
    "smollm3": _text(no_rope_layers=[1, 0]),
    "phi3": _text(),
    "paligemma": _composed({"model_type": "gemma"}, {**SIGHT, "projection_dim": 64}, image_token_index=IMAGE, projection_dim=64,
                           vocab_size=VOCABULARY),
    "falcon_h1": _text(mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=16, mamba_chunk_size=8, lm_head_multiplier=0.5,
                       embedding_multiplier=2.0, mlp_multipliers=[0.7, 1.3], key_multiplier=0.8, attention_out_multiplier=0.9,
                       attention_in_multiplier=1.1),
    "smolvlm": _composed({"model_type": "llama"}, SIGHT, image_token_id=IMAGE, scale_factor=2, pad_token_id=0),
    "hunyuan_v1_dense": _text(),
    "hunyuan_v1_moe": _text(num_experts=4, moe_topk=2),
    "exaone4": _text(**WINDOWS),
    # Not in Liger-Kernel's table.
    "qwen2_moe": _text(**MIXTURE, **SHARED),
    "glm4_moe": _text(**ROUTED, use_qk_norm=True),
    "granitemoe": _text(**MIXTURE, logits_scaling=3.0, residual_multiplier=0.7),
    "phi": _text(),
    "cohere": _text(logit_scale=0.25, use_qk_norm=True),
    "cohere2": _text(**WINDOWS, logit_scale=0.25),
    "gemma3n_text": _text(**WINDOWS, intermediate_size=[96, 96], num_kv_shared_layers=0, vocab_size_per_layer_input=VOCABULARY,
                          hidden_size_per_layer_input=8, altup_num_inputs=2, laurel_rank=8, activation_sparsity_pattern=[0.5, 0.0]),
    "starcoder2": _text(sliding_window=8),
    "stablelm": _text(),
    "gpt2": {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "pad_token_id": 0, "bos_token_id": 1,
             "eos_token_id": 2},
    "mistral3": _composed({"model_type": "mistral"}, {**SIGHT, "model_type": "pixtral", "head_dim": 16}, image_token_index=IMAGE,
                          spatial_merge_size=2),
    "helium": _text(),
    "apertus": _text(),
    "seed_oss": _text(),
    "ernie4_5": _text(),
}
ABSENT = {"muse_glimmer": "transformers 5.14 has no model of this type"}
DROPOUTS = ("attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "residual_dropout", "embedding_dropout", "hidden_dropout", "resid_dropout")


def config(model_type, **more):
    made = AutoConfig.for_model(model_type, **{**TYPES[model_type], **more})
    for part in [made, *(getattr(made, name, None) for name in made.sub_configs)]:
        for name in DROPOUTS:
            if getattr(part, name, None):
                setattr(part, name, 0.0)
    return made


def _class_of(made):
    """The model with a loss; where there is none, what the type's name stands for."""
    if made.model_type == "mllama_text_model":
        return transformers.MllamaForCausalLM
    images = made.sub_configs
    order = ("ImageTextToText", "CausalLM", "") if images else ("CausalLM", "ImageTextToText", "")
    for kind in order:
        auto = transformers.AutoModel if not kind else getattr(transformers, "AutoModelFor" + kind)
        if type(made) in auto._model_mapping:
            return auto._model_mapping[type(made)]
    raise ValueError(made.model_type)


def make(model_type, dtype=torch.float32, seed=42, **more):
    """A model in training, whose weights are all random: also those that begin as ones or zeros."""
    made = config(model_type, **more)
    torch.manual_seed(seed)
    model = _class_of(made)._from_config(made)
    with torch.no_grad():
        for p in model.parameters():
            if p.is_floating_point():
                p.add_(torch.randn_like(p), alpha=0.05)
    return model.to(dtype).train()


def _ids(seed, pieces=0):
    """Two rows of tokens, with so many pieces of an image in each."""
    ids = torch.randint(3, IMAGE, (2, LENGTH), generator=torch.Generator().manual_seed(seed))
    ids[:, 2:2 + pieces] = IMAGE
    return ids


def _pixels(*shape, seed=11):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _images(made):
    """(pieces of an image in each row, what the model is given of the images)"""
    kind, vision = made.model_type, getattr(made, "vision_config", None)
    if kind.startswith(("qwen", "glm4v")):  # 4 x 4 patches, of which 2 x 2 are a piece
        patch = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
        return 4, {"pixel_values": _pixels(2 * 16, patch), "image_grid_thw": torch.tensor([[1, 4, 4]] * 2)}
    if kind == "gemma4":
        places = torch.cartesian_prod(torch.arange(4), torch.arange(4)).expand(2, 16, 2)
        return 4, {"pixel_values": _pixels(2, 16, 3 * vision.patch_size**2).sigmoid(), "image_position_ids": places}
    if kind == "mllama":
        whole = {"aspect_ratio_ids": torch.ones(2, 1, dtype=torch.int64), "aspect_ratio_mask": torch.ones(2, 1, 1, dtype=torch.int64)}
        return 0, {"pixel_values": _pixels(2, 1, 1, 3, 16, 16), **whole, "cross_attention_mask": torch.ones(2, LENGTH, 1, 1)}
    more = {"image_sizes": torch.tensor([[16, 16]] * 2)} if kind == "mistral3" else {}
    shape = (2, 1, 3, 16, 16) if kind == "smolvlm" else (2, 3, 16, 16)
    return 16 if kind in ("llava", "paligemma") else 4, {"pixel_values": _pixels(*shape), **more}


def batch(model, seed=7, images=True, padded=False, dtype=torch.float32):
    """What a model of make() is trained with: tokens with labels, of which some are ignored, and images where it takes them. Of a model
    without a loss, its input. Padding is at the end of the first row."""
    made = model.config
    if made.model_type == "pixtral":
        return {"pixel_values": _pixels(2, 3, 16, 16).to(dtype)}
    pieces, pictures = _images(made) if images and hasattr(made, "vision_config") else (0, {})
    ids = _ids(seed, pieces)
    given = {"input_ids": ids, **{name: t.to(dtype) if t.is_floating_point() else t for name, t in pictures.items()}}
    if made.model_type in ("gemma3", "paligemma"):
        given["token_type_ids"] = (ids == IMAGE).long()
    if made.model_type == "gemma4" or made.model_type.startswith(("qwen", "glm4v")) and pictures:
        given["mm_token_type_ids"] = (ids == IMAGE).long()
    present = torch.arange(LENGTH) < torch.tensor([[LENGTH - 5 * padded], [LENGTH]])
    if padded:
        given["attention_mask"] = present.long()
    if has_loss(model):
        given["labels"] = ids.masked_fill((ids == IMAGE) | (torch.arange(LENGTH) < 3) | ~present, -100)
    return given


def has_loss(model):
    return type(model).__name__.endswith(("ForCausalLM", "ForConditionalGeneration", "LMHeadModel"))


def loss_of(model, given):
    """A number to differentiate: the model's loss, or a weighted sum of what it gives."""
    out = model(**given)
    if has_loss(model):
        return out.loss
    hidden = out.last_hidden_state
    return (hidden.float() * _pixels(*hidden.shape, seed=5)).mean()


def loss_and_gradients(model, given):
    model.zero_grad()
    loss = loss_of(model, given)
    loss.backward()
    return {"loss": loss.detach(), **{name: p.grad for name, p in model.named_parameters() if p.grad is not None}}
