"""Trains a tiny model by the recipes of docs/pytorch.md: in loops that call a model and its optimizer as the trainers of other packages do, and in those
trainers, where they are installed (pip install transformers accelerate lightning trl peft diffusers monai timm nnunetv2). The bits are those of the same
training without Isthmus."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "e2e"))
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import command  # noqa: E402

command.with_python_of_torch()

import contextlib  # noqa: E402
import importlib.util  # noqa: E402
import io  # noqa: E402
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


class Task(nn.Module):
    """A model with its loss, and a `compile` that compiles the model alone, as timm's tasks are."""

    def __init__(self):
        super().__init__()
        self.model = layers()

    def compile(self, backend="inductor"):
        self.model = torch.compile(self.model, backend=backend)
        return self.model

    def forward(self, x):
        return nn.functional.mse_loss(self.model(x), x.roll(1, 0))


class Compiles(Same):
    def test_a_class_whose_compile_is_another(self):
        want = by_closure(task := fresh(Task), task)
        task = isthmus.torch.fit(fresh(Task), budget="60%")
        self.same(want, by_closure(task, task))


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

    @unittest.skipUnless(is_installed("diffusers", "accelerate"), "needs diffusers and accelerate")
    def test_diffusers(self):
        """The loop of its examples: a U-Net learns the noise that a scheduler adds, under Accelerate, with averaged weights."""
        import accelerate
        import diffusers

        kinds = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}

        def trained(wrap):
            model = fresh(lambda: diffusers.UNet2DModel(16, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=4, **kinds)).train()
            average, noises = diffusers.training_utils.EMAModel(model.parameters()), diffusers.DDPMScheduler(num_train_timesteps=100)
            wrap(model)
            accelerator = accelerate.Accelerator(cpu=True)
            model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
            torch.manual_seed(1)
            for _ in range(4):
                clean, noise, times = torch.randn(4, 3, 16, 16), torch.randn(4, 3, 16, 16), torch.randint(0, 100, (4,))
                made = model(noises.add_noise(clean, noise, times), times, return_dict=False)[0]
                accelerator.backward(nn.functional.mse_loss(made, noise))
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                average.step(model.parameters())
            return [p.detach().clone() for p in [*model.parameters(), *average.shadow_params]]

        want = trained(lambda model: model)
        for budget in ("70%", "55%"):
            self.same(want, trained(lambda model: isthmus.torch.fit(model, budget=budget)))

    @unittest.skipUnless(is_installed("monai"), "needs monai")
    def test_monai(self):
        """A U-Net of volumes. Its loss, which is a module of MONAI, is outside of what is compiled."""
        from monai.losses import DiceCELoss
        from monai.networks.nets import UNet

        sizes = {"spatial_dims": 3, "in_channels": 1, "out_channels": 3, "channels": (8, 16, 32), "strides": (2, 2), "num_res_units": 1, "dropout": 0.1}

        def trained(wrap):
            model, loss = fresh(lambda: UNet(**sizes)), DiceCELoss(to_onehot_y=True, softmax=True)
            wrap(model)
            optimizer = torch.optim.AdamW(model.parameters())
            torch.manual_seed(1)
            for _ in range(4):
                x, y = torch.randn(2, 1, 16, 16, 16), torch.randint(0, 3, (2, 1, 16, 16, 16))
                optimizer.zero_grad()
                loss(model(x), y).backward()
                optimizer.step()
            return [p.detach().clone() for p in model.parameters()]

        want = trained(lambda model: model)
        for budget in ("85%", "70%"):
            self.same(want, trained(lambda model: isthmus.torch.fit(model, budget=budget)))

    @unittest.skipUnless(is_installed("timm"), "needs timm")
    def test_timm(self):
        """A model with its loss, as timm's training script makes them; labels are mixed, and paths are dropped."""
        import timm
        import timm.loss
        import timm.optim
        import timm.task
        import timm.utils

        def trained(wrap):
            model = fresh(lambda: timm.create_model("efficientnet_b0", pretrained=False, num_classes=10, drop_rate=0.2, drop_path_rate=0.1))
            task = timm.task.ClassificationTask(model, timm.loss.SoftTargetCrossEntropy(), verbose=False)
            wrap(task)
            optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3)
            torch.manual_seed(1)
            for _ in range(4):
                x, y = torch.randn(4, 3, 64, 64), torch.rand(4, 10).softmax(1)
                task(x, y)["loss"].backward()
                timm.utils.dispatch_clip_grad(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            return [t.detach().clone() for t in [*model.parameters(), *model.buffers()]]

        want = trained(lambda task: task)
        self.same(want, trained(lambda task: isthmus.torch.fit(task, budget="70%")))
        self.same(want, trained(lambda task: isthmus.torch.fit(task, total=256 * MIB)), recomputes=False)
        self.same(want, trained(lambda task: task.compile(backend="isthmus", options={"budget": "55%"})))

    @unittest.skipUnless(is_installed("nnunetv2"), "needs nnunetv2")
    def test_nnunet(self):
        """A trainer's own network, loss and step. The loss weighs one of the network's outputs by 0, whose gradient a compiled graph makes as zeros,
        whatever the backend, and a plain one not at all; so the bits are compared with those of another backend."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results"):
                os.environ[name] = os.path.join(folder, name)
            data = os.path.join(folder, "nnUNet_preprocessed", "Dataset001_Tiny", "tiny")
            os.makedirs(data)
            with open(os.path.join(data, "case.b2nd"), "w"):  # the trainer looks at the names of files only
                pass
            want = trained_by_nnunet(lambda network: network.compile(backend="aot_eager"))
            for budget in ("75%", "60%"):
                self.same(want, trained_by_nnunet(lambda network: isthmus.torch.fit(network, budget=budget)))


def trained_by_nnunet(wrap):
    import nnunetv2.training.nnUNetTrainer.nnUNetTrainer as trainers

    blocks = {"n_stages": 3, "features_per_stage": [8, 16, 32], "n_blocks_per_stage": [1, 1, 1], "n_conv_per_stage_decoder": [1, 1]}
    sizes = {"kernel_sizes": [[3, 3, 3]] * 3, "strides": [[1, 1, 1], [2, 2, 2], [2, 2, 2]], "conv_bias": True}
    kinds = {"conv_op": "torch.nn.Conv3d", "norm_op": "torch.nn.InstanceNorm3d", "dropout_op": None, "nonlin": "torch.nn.LeakyReLU"}
    more = {"norm_op_kwargs": {"affine": True}, "dropout_op_kwargs": None, "nonlin_kwargs": {"inplace": True}}
    network = {
        "network_class_name": "dynamic_network_architectures.architectures.unet.ResidualEncoderUNet",
        "arch_kwargs": {**blocks, **sizes, **kinds, **more},
        "_kw_requires_import": list(kinds),
    }
    planned = {
        "data_identifier": "tiny",
        "batch_size": 2,
        "patch_size": [16, 16, 16],
        "spacing": [1, 1, 1],
        "batch_dice": False,
        "architecture": network,
        "normalization_schemes": ["ZScoreNormalization"],
    }
    plans = {"dataset_name": "Dataset001_Tiny", "plans_name": "nnUNetPlans", "continue_training": False, "configurations": {"3d_fullres": planned}}
    names = {"channel_names": {"0": "CT"}, "labels": {"background": 0, "liver": 1, "tumour": 2}, "file_ending": ".nii.gz"}
    with contextlib.redirect_stdout(io.StringIO()):
        trainer = fresh(lambda: trainers.nnUNetTrainer(plans, "3d_fullres", 0, names, torch.device("cpu")))
        trainer.initialize()
        wrap(trainer.network)
        torch.manual_seed(1)
        for _ in range(4):
            labels = [torch.randint(0, 3, (2, 1, size, size, size)).float() for size in (16, 8)]
            trainer.train_step({"data": torch.randn(2, 1, 16, 16, 16), "target": labels})
    return [p.detach().clone() for p in trainer.network.parameters()]


if __name__ == "__main__":
    command.main()
