// The receiving end: notes every picture and block of sound as WebRTC hands it over.
"use strict";

// Pictures are taken from the track, behind jitter buffer and decoder: what a <video> would paint
// at its next refresh. Sound is taken when NetEQ gives it to the output. Both are what an
// application plays; a screen's and a sound card's own delays are in no peer's figures.

let recordFrom = Infinity; // performance.now() from which on things are kept
let batches = Promise.resolve(); // uploads, one after another
const SOUND_BATCH = 100; // blocks of 10 ms

async function answer(sdp, pictureTracks, soundTracks) {
  makeConnection();
  await pc.setRemoteDescription({ type: "offer", sdp });
  const transceivers = pc.getTransceivers();
  const tracks = [...pictureTracks, ...soundTracks];
  transceivers.forEach((transceiver, index) => {
    const track = transceiver.receiver.track;
    if (track.kind === "video") {
      tapPictures(track, (row) => upload(`/media/pictures/${tracks[index]}`, [row.head, row.pixels]));
    } else {
      playSound(track);
      tapSound(track, tracks[index]);
    }
  });
  await pc.setLocalDescription(await pc.createAnswer());
  return gathered();
}

function playSound(track) {
  const element = new Audio(); // nothing pulls NetEQ without one
  element.srcObject = new MediaStream([track]);
  element.play();
  (window.elements = window.elements || []).push(element);
}

function upload(path, parts) {
  const body = new Blob(parts);
  batches = batches.then(() => fetch(path, { method: "POST", body }));
}

function begin(moment) {
  recordFrom = moment;
}

async function tapPictures(track, take) {
  const reader = new MediaStreamTrackProcessor({ track, maxBufferSize: 30 }).readable.getReader();
  for (;;) {
    const { value: frame, done } = await reader.read();
    if (done) return;
    const now = performance.now();
    if (now >= recordFrom) {
      const { width, height } = frame.visibleRect;
      const layout = planes(frame.format, width, height);
      if (layout) {
        const pixels = new Uint8Array((width * height * 3) / 2);
        await frame.copyTo(pixels, { layout });
        const head = new Float64Array([now, width, height, frame.format === "NV12" ? 1 : 0]);
        take({ head, pixels, now, timestamp: frame.timestamp });
      }
    }
    frame.close();
  }
}

function planes(format, width, height) {
  const whole = width * height;
  if (format === "I420") {
    return [
      { offset: 0, stride: width },
      { offset: whole, stride: width / 2 },
      { offset: (whole * 5) / 4, stride: width / 2 },
    ];
  }
  return format === "NV12" ? [{ offset: 0, stride: width }, { offset: whole, stride: width }] : null;
}

async function tapSound(track, name) {
  let heads = [];
  let blocks = [];
  const give = () => {
    if (heads.length) upload(`/media/sound/${name}`, [new Float64Array([heads.length / 3, ...heads]), ...blocks]);
    heads = [];
    blocks = [];
  };
  window.flushers = [...(window.flushers || []), give];
  await tapBlocks(track, (now, rate, samples) => {
    heads.push(now, rate, samples.length);
    blocks.push(samples);
    if (heads.length >= 3 * SOUND_BATCH) give();
  });
}

async function tapBlocks(track, take) {
  const reader = new MediaStreamTrackProcessor({ track, maxBufferSize: 200 }).readable.getReader();
  for (;;) {
    const { value: data, done } = await reader.read();
    if (done) return;
    const now = performance.now();
    if (now >= recordFrom) {
      const samples = new Float32Array(data.numberOfFrames);
      data.copyTo(samples, { planeIndex: 0, format: "f32-planar" });
      take(now, data.sampleRate, samples);
    }
    data.close();
  }
}

/** Hands over what is left. */
async function flush() {
  recordFrom = Infinity;
  (window.flushers || []).forEach((give) => give());
  await batches;
}

/** How long the taps themselves take, ms: handed to a track, taken from it, nothing in between. */
async function tapDelays() {
  const delays = { picture: [], sound: [] };
  const video = new MediaStreamTrackGenerator({ kind: "video" });
  const audio = new MediaStreamTrackGenerator({ kind: "audio" });
  recordFrom = 0;
  let given = [];
  tapPictures(video, (row) => delays.picture.push(row.now - row.timestamp / 1000));
  tapBlocks(audio, (now) => given.length && delays.sound.push(now - given.shift()));
  const [pictures, sounds] = [video.writable.getWriter(), audio.writable.getWriter()];
  for (let index = 0; index < 25; index++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    const timestamp = Math.round(performance.now() * 1000);
    pictures.write(new VideoFrame(new Uint8Array(640 * 540), { format: "I420", codedWidth: 640, codedHeight: 360, timestamp }));
    given.push(performance.now());
    sounds.write(new AudioData({ format: "f32", sampleRate: 48000, numberOfChannels: 1, numberOfFrames: 960, timestamp, data: new Float32Array(960) }));
  }
  await new Promise((resolve) => setTimeout(resolve, 100));
  recordFrom = Infinity;
  video.stop();
  audio.stop();
  return delays;
}
