"""Trains a tiny model by the recipes of docs/pytorch.md: in loops that call a model and its optimizer as the trainers of other packages do, and in those
trainers, where they are installed (pip install transformers accelerate lightning). The bits are those of the same training without Isthmus."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import command  # noqa: E402

command.with_python_of_torch()

import importlib.util  # noqa: E402
import tempfile  # noqa: E402
import unittest  # noqa: E402
import warnings  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import isthmus.torch  # noqa: E402
from isthmus.torch.device import ledger, optimizers, total  # noqa: E402

torch.set_num_threads(1)
WIDTH, WORDS = 64, 97
MIB = 1 << 20


def layers():
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(4)])


class Language(nn.Module):
    """Takes its arguments by name and returns a dictionary with the loss, as models of transformers do."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layers, self.head = nn.Embedding(WORDS, WIDTH), layers(), nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids, labels=None):
        logits = self.head(self.layers(self.embedding(input_ids)))
        loss = None if labels is None else nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}


class Wrapped(torch.optim.Optimizer):
    """Wraps an optimizer and shares its groups and state, as Accelerate's wrapper does."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    param_groups = property(lambda self: self.optimizer.param_groups)
    state = property(lambda self: self.optimizer.state)
    defaults = property(lambda self: self.optimizer.defaults)

    def step(self, closure=None):
        return self.optimizer.step(closure)

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none)


def fresh(make):
    torch.compiler.reset()
    isthmus.torch.reset()
    torch.manual_seed(0)
    return make()


def by_name(model, steps=6):
    """Trains as transformers' Trainer does: two batches for each step of a wrapped optimizer, with clipped gradients and a schedule."""
    optimizer = Wrapped(torch.optim.AdamW(model.parameters()))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer.optimizer, lambda k: 1 / (k + 1))
    torch.manual_seed(1)
    for k in range(2 * steps):
        text = torch.randint(0, WORDS, (8, 48))
        (model(input_ids=text, labels=text)["loss"] / 2).backward()
        if k % 2:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    return [p.detach().clone() for p in model.parameters()]


def by_closure(model, step=None, steps=6):
    """Trains as Lightning does: the optimizer's step calls the training step, clears the gradients and runs the backward."""
    optimizer = torch.optim.AdamW(model.parameters())
    step = step or (lambda x: nn.functional.mse_loss(model(x), x.roll(1, 0)))
    torch.manual_seed(1)
    for _ in range(steps):
        x = torch.randn(256, WIDTH)

        def closure():
            loss = step(x)
            optimizer.zero_grad()
            loss.backward()
            return loss

        optimizer.step(closure)
    return [p.detach().clone() for p in model.parameters()]


class Same(unittest.TestCase):
    def same(self, want, got, *, recomputes=True):
        self.assertTrue(all(map(torch.equal, want, got)))
        report = isthmus.torch.report()
        self.assertGreater(len(report), 0)
        for graph in report:
            self.assertLessEqual(graph.planned_peak_bytes, graph.budget_bytes)
            self.assertLessEqual(graph.measured_peak_bytes or 0, graph.budget_bytes)
        if recomputes:
            self.assertGreater(sum(graph.recomputed for graph in report), 0)


class Loops(Same):
    def test_a_model_that_takes_names_in_a_trainer(self):
        want = by_name(fresh(Language))
        model = fresh(Language)
        model.compile(backend="isthmus", options={"budget": "60%"})
        self.same(want, by_name(model))
        self.same(want, by_name(isthmus.torch.fit(fresh(Language), budget="60%")))
        self.same(want, by_name(isthmus.torch.fit(fresh(Language), total=64 * MIB)), recomputes=False)

    def test_a_wrapped_optimizer_is_counted_once(self):
        model = fresh(Language)
        inner = torch.optim.AdamW(model.parameters())
        wrapper = Wrapped(inner)
        self.assertEqual(optimizers.optimizers_in([wrapper]), [inner])
        found = ledger.taken(total.Total.of(64 * MIB, optimizer=wrapper), torch.device("cpu"))
        sizes = [p.numel() for p in model.parameters()]
        self.assertEqual(found.state_to_come, 8 * sum(sizes) + 4 * len(sizes))

    def test_a_training_step_in_a_closure(self):
        """The network alone is compiled, or the function that returns the loss."""
        want = by_closure(fresh(layers))
        self.same(want, by_closure(isthmus.torch.fit(fresh(layers), budget="70%")))
        model = fresh(layers)
        self.same(want, by_closure(model, isthmus.torch.fit(lambda x: nn.functional.mse_loss(model(x), x.roll(1, 0)), budget="60%")))


def characters():
    """Returns a tokenizer of transformers that needs no download."""
    import tokenizers
    import transformers

    words = {"<pad>": 0, **{chr(32 + k): k for k in range(1, WORDS)}}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<pad>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="~")


def is_installed(*names):
    return all(importlib.util.find_spec(name) is not None for name in names)


class Trainers(Same):
    @unittest.skipUnless(is_installed("transformers", "accelerate"), "needs transformers and accelerate")
    def test_transformers(self):
        from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

        config = GPT2Config(n_layer=3, n_embd=32, n_head=2, vocab_size=WORDS, n_positions=64, bos_token_id=0, eos_token_id=0)
        torch.manual_seed(0)
        texts = [{"input_ids": t, "labels": t} for t in torch.randint(0, WORDS, (32, 48))]

        def trained(wrap):
            model = wrap(fresh(lambda: GPT2LMHeadModel(config)))
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                settings = {"max_steps": 5, "per_device_train_batch_size": 4, "report_to": [], "use_cpu": True, "save_strategy": "no"}
                arguments = TrainingArguments(output_dir=folder, disable_tqdm=True, logging_strategy="no", **settings)
                Trainer(model=model, args=arguments, train_dataset=texts).train()
            return [p.detach().clone() for p in model.parameters()]

        want = trained(lambda model: model)
        self.same(want, trained(lambda model: isthmus.torch.fit(model, budget="60%")))
        self.same(want, trained(lambda model: isthmus.torch.fit(model, total=64 * MIB)), recomputes=False)

    @unittest.skipUnless(is_installed("accelerate"), "needs accelerate")
    def test_accelerate(self):
        """The model is compiled before `prepare`, which wraps it and its optimizer, and adds up gradients of two batches."""
        import accelerate

        def trained(wrap):
            model = wrap(fresh(Language))
            accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
            model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
            torch.manual_seed(1)
            for _ in range(12):
                text = torch.randint(0, WORDS, (8, 48))
                with accelerator.accumulate(model):
                    accelerator.backward(model(input_ids=text, labels=text)["loss"])
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
            return [p.detach().clone() for p in model.parameters()]

        want = trained(lambda model: model)
        self.same(want, trained(lambda model: isthmus.torch.fit(model, budget="60%")))
        self.same(want, trained(lambda model: isthmus.torch.fit(model, total=64 * MIB)), recomputes=False)

    @unittest.skipUnless(is_installed("trl", "peft", "transformers", "datasets"), "needs trl, peft, transformers and datasets")
    def test_trl_with_lora(self):
        """SFTTrainer with LoRA: the model with its adapters is compiled before the trainer gets it."""
        import datasets
        import peft
        import transformers
        import trl

        sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64}
        config = transformers.LlamaConfig(vocab_size=WORDS, max_position_embeddings=64, pad_token_id=0, **sizes)
        torch.manual_seed(0)
        data = datasets.Dataset.from_dict({"input_ids": torch.randint(1, WORDS, (32, 48)).tolist()})

        def adapted():
            lora = peft.LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
            return peft.get_peft_model(transformers.LlamaForCausalLM(config), lora)

        def trained(wrap):
            model = fresh(adapted)
            wrap(model)
            settings = {"max_steps": 4, "per_device_train_batch_size": 4, "report_to": [], "use_cpu": True, "save_strategy": "no"}
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                asked = trl.SFTConfig(output_dir=folder, disable_tqdm=True, logging_strategy="no", max_length=48, bf16=False, gradient_checkpointing=False, **settings)
                trl.SFTTrainer(model=model, args=asked, train_dataset=data, processing_class=characters()).train()
            return [p.detach().clone() for p in model.parameters() if p.requires_grad]

        # Models of transformers compute attention otherwise as soon as anything compiles them.
        want = trained(lambda model: model.compile(backend="eager"))
        self.same(want, trained(lambda model: isthmus.torch.fit(model, budget="97%")))  # most of this step is what TRL's fused head needs
        self.same(want, trained(lambda model: isthmus.torch.fit(model, total=96 * MIB)), recomputes=False)

    @unittest.skipUnless(is_installed("lightning"), "needs lightning")
    def test_lightning(self):
        import lightning

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = layers()

            def training_step(self, batch, number):
                return nn.functional.mse_loss(self.net(batch), batch.roll(1, 0))

            def configure_optimizers(self):
                return torch.optim.AdamW(self.parameters())

        torch.manual_seed(0)
        data = torch.utils.data.DataLoader(torch.randn(512, WIDTH), batch_size=128)

        def trained(change):
            module = fresh(Module)
            change(module)
            settings = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                lightning.Trainer(max_steps=4, accelerator="cpu", **settings).fit(module, data)
            return [p.detach().clone() for p in module.parameters()]

        want = trained(lambda module: None)
        self.same(want, trained(lambda module: isthmus.torch.fit(module.net, budget="70%")))
        self.same(want, trained(lambda module: setattr(module, "training_step", isthmus.torch.fit(module.training_step, budget="70%"))))


if __name__ == "__main__":
    command.main()
