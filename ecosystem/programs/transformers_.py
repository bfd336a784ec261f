import torch
import transformers as T
from one import trained

T.logging.set_verbosity_error()
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 40,
}


def _trained(model, **inputs):
    model.eval()
    with torch.no_grad():
        out = model(**inputs)
    model.train()
    return [
        out.logits,
        trained(model, lambda: model(**inputs).loss, 2, torch.optim.AdamW(model.parameters(), lr=1e-2)),
    ]


def _text():
    x = torch.randint(0, 40, (2, 7))
    return {"input_ids": x, "attention_mask": torch.ones_like(x)}


def try_bert():
    model = T.BertForSequenceClassification(
        T.BertConfig(
            **SMALL,
            num_labels=3,
            max_position_embeddings=16,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    return _trained(model, **_text(), labels=torch.tensor([0, 2]))


def try_gpt2():
    config = T.GPT2Config(
        vocab_size=40,
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=32,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = T.GPT2LMHeadModel(config)
    x = _text()
    found = _trained(model, **x, labels=x["input_ids"])
    model.eval()
    return [*found, model.generate(**x, max_new_tokens=5, do_sample=False, pad_token_id=0)]


def try_llama():
    model = T.LlamaForCausalLM(T.LlamaConfig(**SMALL, num_key_value_heads=1, max_position_embeddings=32))
    x = _text()
    found = _trained(model, **x, labels=x["input_ids"])
    model.eval()
    return [*found, model.generate(**x, max_new_tokens=5, do_sample=False, pad_token_id=0)]


def try_t5():
    config = T.T5Config(
        vocab_size=40,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    model = T.T5ForConditionalGeneration(config)
    return _trained(model, **_text(), labels=torch.randint(0, 40, (2, 5)))


def try_vit():
    config = T.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=16,
        patch_size=8,
        num_labels=3,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return _trained(
        T.ViTForImageClassification(config),
        pixel_values=torch.randn(2, 3, 16, 16),
        labels=torch.tensor([0, 2]),
    )
