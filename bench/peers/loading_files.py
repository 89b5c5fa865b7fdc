"""Files of records: an epoch a turn; "seconds cpu-seconds-a-record records sum-of-labels".

    loading_files.py tfdata tfrecord PATH BYTES     webdataset tar PATH BYTES
    loading_files.py torchvision|pillow|tfdata jpeg PATH 0

Records are BYTES of u8 and a label; of jpeg PATH has a count, lengths (u32) and the encoded images one after the
other: each is decoded, cut at random, resized to 224, flipped and normalised.
"""
import os
import resource
import sys
import time

import numpy as np
from serve import ready

BATCH = {"jpeg": 64}.get(sys.argv[2], 256)
peer, work, path, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def encoded():
    raw = open(path, "rb").read()
    count = int(np.frombuffer(raw, np.uint32, 1)[0])
    lengths = np.frombuffer(raw, np.uint32, count, 4).astype(np.int64)
    ends = 4 + 4 * count + np.cumsum(lengths)
    return [raw[e - n:e] for e, n in zip(ends, lengths)]


def tf_module():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf
    return tf


def tfrecord():
    tf = tf_module()
    shape = {"data": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(messages):
        found = tf.io.parse_example(messages, shape)
        return tf.io.decode_raw(found["data"], tf.uint8, fixed_length=size), found["label"]

    auto = tf.data.AUTOTUNE
    whole = tf.data.TFRecordDataset(path).batch(BATCH).map(parse, auto).prefetch(auto)
    return lambda: ((len(y), int(y.numpy().sum())) for _, y in whole)


def tar():
    import webdataset

    def epoch():
        whole = webdataset.WebDataset(path, shardshuffle=False, empty_check=False).to_tuple("bin", "cls")
        data, labels = [], []
        for bin, cls in whole:
            data.append(np.frombuffer(bin, np.uint8))
            labels.append(int(cls))
            if len(data) == BATCH:
                np.stack(data)
                yield len(data), sum(labels)
                data, labels = [], []
        if data:
            np.stack(data)
            yield len(data), sum(labels)
    return epoch


def torch_jpeg():
    import io

    import torch
    from torch.utils.data import DataLoader, Dataset
    from torchvision.io import decode_jpeg
    from torchvision.transforms import v2
    torch.set_num_threads(1)
    images = encoded()
    tensors = [torch.frombuffer(bytearray(i), dtype=torch.uint8) for i in images]
    make = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.ToImage(),
                       v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    class Records(Dataset):
        def __len__(self):
            return len(images)

        def __getitem__(self, i):
            if peer == "torchvision":
                return make(decode_jpeg(tensors[i]))
            from PIL import Image
            return make(Image.open(io.BytesIO(images[i])).convert("RGB"))

    loader = DataLoader(Records(), BATCH, shuffle=True, num_workers=2)
    return lambda: ((len(x), 0) for x in loader)


def tf_jpeg():
    tf = tf_module()
    images = encoded()

    def make(data):
        shape = tf.io.extract_jpeg_shape(data)
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            shape, tf.zeros([0, 0, 4]), aspect_ratio_range=(3 / 4, 4 / 3), area_range=(0.08, 1),
            use_image_if_no_bounding_boxes=True)
        window = tf.stack([begin[0], begin[1], extent[0], extent[1]])
        image = tf.image.decode_and_crop_jpeg(data, window, channels=3, dct_method="INTEGER_ACCURATE")
        image = tf.image.random_flip_left_right(tf.image.resize(image, (224, 224)))
        return (image / 255 - MEAN) / STD

    auto = tf.data.AUTOTUNE
    whole = tf.data.Dataset.from_tensor_slices(images).shuffle(len(images)).map(make, auto).batch(BATCH).prefetch(auto)
    return lambda: ((len(x), 0) for x in whole)


def cpu():
    """Seconds of this process and of the workers that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(r.ru_utime + r.ru_stime for r in spent)


def epoch(batches):
    done, total = 0, 0
    for records, labels in batches():
        done, total = done + records, total + labels
    return done, total


try:
    if work == "jpeg":
        batches = tf_jpeg() if peer == "tfdata" else torch_jpeg()
    else:
        batches = tfrecord() if work == "tfrecord" else tar()
except ImportError:
    sys.exit("missing")
epoch(batches)
ready()
for _ in sys.stdin:
    busy, start = cpu(), time.perf_counter()
    done, total = epoch(batches)
    seconds = time.perf_counter() - start
    print(repr(seconds), repr((cpu() - busy) / done), done, total, flush=True)
